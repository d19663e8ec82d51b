"""WN18RR: WordNet without the inverse relations that leak test triples into training; no labelled negatives."""

from kgcore.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "wn18rr",
    DatasetSpec(
        name="wn18rr",
        title="WordNet, 11 relations, no negatives (Dettmers et al. 2018)",
        url="https://ndownloader.figshare.com/files/66192221",
        archives=("wn18RR.zip",),
        labelled=False,
        files={
            "train": SplitFile("wn18RR/train.txt", ("35e81af3ae233327c52a87f23b30ad3c",)),
            "valid": SplitFile("wn18RR/valid.txt", ("74a2ee9eca9a8d31f1a7d4d95b5e0887",)),
            "test": SplitFile("wn18RR/test.txt", ("2b45ba1ba436b9d4ff27f1d3511224c9",)),
        },
        counts=ExpectedCounts(train_rows=86_835, entities=40_943, entities_in_all=True, predicates=11),
        as_published=True,
    ),
)
