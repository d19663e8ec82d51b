"""FB13: people in Freebase, with labelled negatives."""

from kgcore.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "fb13",
    DatasetSpec(
        name="fb13",
        title="Freebase, 13 relations of people, labelled negatives (Socher et al. 2013)",
        url="https://ndownloader.figshare.com/files/66192218",
        archives=("freebase13.zip",),
        labelled=True,
        files={
            "train": SplitFile("freebase13/train.txt", ("9099ebcd85ab3ce723cfaaf34f74dceb",)),
            "valid": SplitFile("freebase13/dev.txt", ("c4ef7b244baa436a97c2a5e57d4ba7ed",)),
            "test": SplitFile("freebase13/test.txt", ("f9af2eac7c5a86996c909bdffd295528",)),
        },
        counts=ExpectedCounts(train_rows=316_232, entities=75_043, predicates=13),
        as_published=True,
    ),
)
