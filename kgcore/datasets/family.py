"""family: a generated genealogy. Every triple is known to be true or false."""

from kgcore.datasets.base import DatasetSpec, SplitFile
from kgcore.datasets.genealogy import write_genealogy
from kgcore.registries import DATASETS

DATASETS.add(
    "family",
    DatasetSpec(
        name="family",
        title="generated genealogy, the truth of every triple is known (any size)",
        generate=write_genealogy,
        labelled=True,
        as_published=True,
        files={split: SplitFile(f"{split}.txt") for split in ("train", "valid", "test")},
    ),
)
