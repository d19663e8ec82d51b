"""FB15K-237: Freebase without the inverse relations that leak test triples into training; no labelled negatives."""

from kgcore.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "fb15k-237",
    DatasetSpec(
        name="fb15k-237",
        title="Freebase, 237 relations, no negatives (Toutanova & Chen 2015)",
        url="https://ndownloader.figshare.com/files/66193226",
        archives=("fb15k-237.zip",),
        labelled=False,
        files={
            # Public hosts have two files with the same rows in different orders.
            "train": SplitFile(
                "fb15k-237/train.txt", ("c05b87b9ac00f41901e016a2092d7837", "eee9ad2aa047afd9ab3ce1dd99b2228a")
            ),
            "valid": SplitFile("fb15k-237/valid.txt", ("6a94efd530e5f43fcf84f50bc6d37b69",)),
            "test": SplitFile("fb15k-237/test.txt", ("f5bdf63db39f455dec0ed259bb6f8628",)),
        },
        counts=ExpectedCounts(train_rows=272_115, entities=14_541, entities_in_all=True, predicates=237),
        as_published=True,
    ),
)
