"""WN11: a part of WordNet with labelled negatives."""

from kgcore.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "wn11",
    DatasetSpec(
        name="wn11",
        title="WordNet, 11 relations, labelled negatives (Socher et al. 2013)",
        url="https://ndownloader.figshare.com/files/66192215",
        archives=("wordnet11.zip",),
        labelled=True,
        files={
            "train": SplitFile("wordnet11/train.txt", ("2429c672c89e33ad4fa8e1a3ade416e4",)),
            "valid": SplitFile("wordnet11/dev.txt", ("87bf86e225e79294a2524089614b96aa",)),
            "test": SplitFile("wordnet11/test.txt", ("24113b464f8042c339e3e6833c1cebdf",)),
        },
        counts=ExpectedCounts(train_rows=112_581, train_distinct=110_361, entities=38_194, predicates=11),
        as_published=True,
    ),
)
