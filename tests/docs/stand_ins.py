"""Replace the named data sets by small ones in every process that imports this file.

A replacement keeps the name, so that presets choose as they do for the original. It has labelled negatives if the
original has them. Its triples are those of a generated family of 200 people.
"""

from dataclasses import replace
from pathlib import Path

from kgcore.data.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.data.datasets.family import write_genealogy
from kgcore.registries import DATASETS

PEOPLE = 200
FILES = {split: SplitFile(f"{split}.txt") for split in ("train", "valid", "test")}


def stand_in(original: DatasetSpec) -> DatasetSpec:
    """Return the data set with 200 generated people; its size setting has no effect."""

    def generate(folder: Path, size: int, seed: int) -> None:
        write_genealogy(folder, PEOPLE, seed)
        if not original.labelled:
            for split in ("valid", "test"):
                without_labels(folder / f"{split}.txt")

    return replace(
        original,
        url=None,
        archives=(),
        plain=False,
        files=FILES,
        counts=ExpectedCounts(),
        folder=None,
        generate=generate,
    )


def without_labels(path: Path) -> None:
    """Keep the true triples of a labelled file, without their label."""
    rows = [line.rsplit("\t", 1) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("".join(f"{triple}\n" for triple, label in rows if label == "1"), encoding="utf-8")


def install() -> None:
    """Replace every registered data set by its stand-in."""
    for name in DATASETS.names():
        original = DATASETS.get(name)
        DATASETS.remove(name)
        DATASETS.add(name, stand_in(original))


install()
