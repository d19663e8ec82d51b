"""Held-out rows with entities that training lacks: their ids, labels and names."""

from pathlib import Path

import numpy as np

from kgcore.data.datasets.base import DatasetSpec, SplitFile, find_dataset
from kgcore.data.datasets.prepare import prepare
from kgcore.data.datasets.read import read_files, unseen_rows

TRAIN = "cat\tis_a\tfeline\nlion\tis_a\tfeline\nfeline\tis_a\tanimal\n"
VALID = "cat\tis_a\tanimal\t1\nmanx_cat\tis_a\tcat\t1\nmanx_cat\tis_a\tanimal\t0\nmanx_cat\tis_a\tcat\t1\n"
TEST = "lion\tis_a\tanimal\t1\nlion\tis_a\tcat\t0\nzebra\tis_a\taardvark\t0\n"
TEST += "cat\tlikes\tzebra\t1\ncat\tis_a\tzebra\t0\n"


def test_rows_by_hand(tmp_path: Path) -> None:
    for name, text in (("train", TRAIN), ("valid", VALID), ("test", TEST)):
        (tmp_path / f"{name}.tsv").write_text(text)
    spec = find_dataset(str(tmp_path))
    graph = prepare(spec, tmp_path).graph
    found = unseen_rows(read_files(spec, tmp_path), graph)
    assert graph.entities == ["animal", "cat", "feline", "lion"]
    assert found.names == ("aardvark", "manx_cat", "zebra")  # ids 4, 5 and 6
    np.testing.assert_array_equal(found.splits["valid"].triples, [[5, 0, 0], [5, 0, 1]])
    np.testing.assert_array_equal(found.splits["valid"].labels, [0, 1])
    np.testing.assert_array_equal(found.splits["test"].triples, [[1, 0, 6], [6, 0, 4]])
    np.testing.assert_array_equal(found.splits["test"].labels, [0, 0])


def test_files_of_negatives_count_as_false(tmp_path: Path) -> None:
    texts = {"train": TRAIN, "valid": "cat\tis_a\tanimal\n", "test": "lion\tis_a\tanimal\nzebra\tis_a\tcat\n"}
    texts |= {"valid_negatives": "cat\tis_a\tlion\n", "test_negatives": "zebra\tis_a\tlion\nlion\tis_a\tcat\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.tsv").write_text(text)
    files = {name: SplitFile(f"{name}.tsv") for name in texts}
    spec = DatasetSpec("cats", "cats", files=files, labelled=True, folder=tmp_path)
    found = unseen_rows(read_files(spec, tmp_path), prepare(spec, tmp_path).graph)
    assert found.names == ("zebra",)
    assert len(found.splits["valid"]) == 0
    np.testing.assert_array_equal(found.splits["test"].triples, [[4, 0, 1], [4, 0, 3]])
    np.testing.assert_array_equal(found.splits["test"].labels, [1, 0])
