"""The public data sets: where they come from, their files and what these must contain."""

from kgcore.data.datasets.base import DatasetSpec, ExpectedCounts, SplitFile
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
