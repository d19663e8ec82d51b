"""OpenKE's folders: entity2id.txt, relation2id.txt, train2id.txt, valid2id.txt and test2id.txt."""

from pathlib import Path

from kgcore.datasets.formats.base import Layout
from kgcore.datasets.formats.numbered import read_numbered, read_vocabulary
from kgcore.registries import LAYOUTS

FILES = {"entities": "entity2id.txt", "predicates": "relation2id.txt", "train": "train2id.txt"}
HELD_OUT = {"valid": "valid2id.txt", "test": "test2id.txt"}


def find(folder: Path) -> dict[str, str] | None:
    """Return the files of a folder in OpenKE's layout by role, or None for a folder of another kind."""
    if not all((folder / path).is_file() for path in FILES.values()):
        return None
    return FILES | {role: path for role, path in HELD_OUT.items() if (folder / path).is_file()}


LAYOUTS.add("openke", Layout("OpenKE", find, read_vocabulary, read_numbered))
