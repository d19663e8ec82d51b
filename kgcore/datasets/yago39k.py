"""YAGO39K: a part of YAGO 3 with labelled negatives. Its triples consist of ids, in the file layout of TransC."""

from kgcore.datasets.base import DatasetSpec, SplitFile
from kgcore.registries import DATASETS

DATASETS.add(
    "yago39k",
    DatasetSpec(
        name="yago39k",
        title="YAGO, 37 relations, 39,374 entities, labelled negatives (Lv et al. 2018)",
        url="https://raw.githubusercontent.com/davidlvxin/TransC/master/data",
        plain=True,
        # The second archive has no train file. A mirror may have the train file as a single file.
        archives=("YAGO39K.zip", "yago39k-heldout-only.zip"),
        as_published=True,
        labelled=True,
        files={
            "entities": SplitFile("YAGO39K/Train/instance2id.txt", ("8f6ef866b6801840ce6bf0af59e3b490",)),
            "predicates": SplitFile("YAGO39K/Train/relation2id.txt", ("194511cbb64c9df9054c64710ac20bdd",)),
            # Neither a checksum nor counts are published. The file's first line is its number of triples.
            "train": SplitFile("YAGO39K/Train/triple2id.txt"),
            "valid": SplitFile("YAGO39K/Valid/triple2id_positive.txt", ("886f470c65963040d976385ce0334cfb",)),
            "valid_negatives": SplitFile("YAGO39K/Valid/triple2id_negative.txt", ("16f2c2531c5d5f395ad4ea4b928e0ca6",)),
            "test": SplitFile("YAGO39K/Test/triple2id_positive.txt", ("801d934f850f9d1186f3ca84acc9bab5",)),
            "test_negatives": SplitFile("YAGO39K/Test/triple2id_negative.txt", ("c9ccd1aef5b0903290c046203227e4fb",)),
        },
    ),
)
