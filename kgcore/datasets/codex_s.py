"""CoDEx-S: a small part of Wikidata with hard negatives, which people labelled as false."""

from kgcore.datasets.base import Counts, DatasetSpec, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "codex-s",
    DatasetSpec(
        name="codex-s",
        title="Wikidata, 42 relations, 2,034 entities, labelled hard negatives (Safavi & Koutra 2020)",
        url="https://raw.githubusercontent.com/tsafavi/codex/master/data/triples",
        plain=True,
        archives=("codex-s.zip",),
        labelled=True,
        files={
            "train": SplitFile("codex-s/train.txt", ("a212b97540f1b161b1d3bc3c64844783",)),
            "valid": SplitFile("codex-s/valid.txt", ("52f6c4eb8ccd99d411196bc0bdb32378",)),
            "valid_negatives": SplitFile("codex-s/valid_negatives.txt", ("0812c844f738019711e26b7a35b4688a",)),
            "test": SplitFile("codex-s/test.txt", ("3b579e19cc094b3c6dc2b7c57df372c6",)),
            "test_negatives": SplitFile("codex-s/test_negatives.txt", ("4bd8c95f65e7869b2f81608785b0f832",)),
        },
        counts=Counts(train_rows=32_888),
    ),
)
