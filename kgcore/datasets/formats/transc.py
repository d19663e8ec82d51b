"""TransC's folders: Train, Valid and Test, with negatives in files of their own, as in YAGO39K.

Only the triples of instances are read; instanceOf2id.txt and subClassOf2id.txt, which name concepts, are not.
"""

from pathlib import Path

from kgcore.datasets.formats.base import Layout
from kgcore.datasets.formats.numbered import read_numbered, read_vocabulary
from kgcore.registries import LAYOUTS

FILES = {
    "entities": "Train/instance2id.txt",
    "predicates": "Train/relation2id.txt",
    "train": "Train/triple2id.txt",
}
HELD_OUT = {
    "valid": "Valid/triple2id_positive.txt",
    "valid_negatives": "Valid/triple2id_negative.txt",
    "test": "Test/triple2id_positive.txt",
    "test_negatives": "Test/triple2id_negative.txt",
}


def find(folder: Path) -> dict[str, str] | None:
    """Return the files of a folder in TransC's layout by role, or None for a folder of another kind."""
    if not all((folder / path).is_file() for path in FILES.values()):
        return None
    return FILES | {role: path for role, path in HELD_OUT.items() if (folder / path).is_file()}


LAYOUTS.add("transc", Layout("TransC", find, read_vocabulary, read_numbered))
