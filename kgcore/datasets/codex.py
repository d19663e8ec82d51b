"""CoDEx-S and CoDEx-M: parts of Wikidata with hard negatives, which people labelled as false."""

from kgcore.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "codex-m",
    DatasetSpec(
        name="codex-m",
        title="Wikidata, 51 relations, 17,050 entities, labelled hard negatives (Safavi & Koutra 2020)",
        url="https://raw.githubusercontent.com/tsafavi/codex/master/data/triples",
        plain=True,
        archives=("codex-m.zip",),
        labelled=True,
        files={
            "train": SplitFile("codex-m/train.txt", ("d507616dd7b9f6ddbacf83766efaa1dd",)),
            "valid": SplitFile("codex-m/valid.txt", ("0fd5e85f41e0ba3ef6c10093cbe2a435",)),
            "valid_negatives": SplitFile("codex-m/valid_negatives.txt", ("381300fbd297df9db2fd05bb6cfc1f2d",)),
            "test": SplitFile("codex-m/test.txt", ("7186374c5ca7075d268ccf316927041d",)),
            "test_negatives": SplitFile("codex-m/test_negatives.txt", ("2dc6755e9cc54145e782480c5bb2ef44",)),
        },
        counts=ExpectedCounts(train_rows=185_584),
    ),
)


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
        counts=ExpectedCounts(train_rows=32_888),
    ),
)
