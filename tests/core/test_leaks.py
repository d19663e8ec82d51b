"""Held-out rows that another split has too: they are left out and counted, or kept as published."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from kgcore.data.datasets.base import DatasetSpec, find_dataset
from kgcore.data.datasets.prepare import prepare
from kgcore.measure.report.data import data_notes, hidden_fact_notes
from kgcore.registries import DATASETS


def leaky(folder: Path) -> DatasetSpec:
    """Return a data set of 24 distinct held-out rows. One validation and two test rows are training facts, and two
    rows, one of them a negative, are in both valid and test."""
    train = "a\tr\tb\nb\tr\tc\nc\tq\ta\n" + "".join(f"x{i}\tr\ta\n" for i in range(9))
    both = "a\tr\tx0\t1\na\tq\tx0\t-1\n"
    valid = "".join(f"a\tr\tx{i}\t1\n" for i in range(1, 9)) + "b\tr\tc\t-1\n" + both
    test = "".join(f"b\tr\tx{i}\t1\n" for i in range(9)) + "a\tr\tb\t1\nx1\tr\ta\t-1\n" + both
    folder.mkdir()
    for name, text in {"train": train, "valid": valid, "test": test}.items():
        (folder / f"{name}.txt").write_text(text)
    return find_dataset(str(folder))


def test_held_out_rows_that_another_split_has_are_left_out(tmp_path: Path) -> None:
    spec = leaky(tmp_path / "mine")
    prepared = prepare(spec, tmp_path / "mine")
    graph, counts = prepared.graph, prepared.counts
    assert (counts["valid_left_out"], counts["test_left_out"]) == (3, 2)
    assert (len(graph.valid), len(graph.test)) == (8, 11)
    assert (counts["valid_positives"], counts["valid_negatives"]) == (8, 0)
    assert (counts["test_positives"], counts["test_negatives"]) == (10, 1)
    held_out = np.r_[graph.valid.triples, graph.test.triples]
    assert not graph.index(graph.train.triples).contains(held_out).any()
    assert not graph.index(graph.test.triples).contains(graph.valid.triples).any()
    assert data_notes(counts) == [
        "Left out: 3 valid rows that train or test has too, and 2 test rows that train has too."
    ]


def test_the_exams_half_of_new_labels_is_counted() -> None:
    assert data_notes({"labels_rows": 40, "labels_for_exam": 20}) == [
        "20 of the 60 new labels belong to the exam of `kgcal promote`. They are not used for calibration."
    ]
    assert data_notes({"labels_rows": 40}) == []


def test_a_published_data_set_keeps_its_rows(tmp_path: Path) -> None:
    spec = leaky(tmp_path / "mine")
    published = replace(spec, as_published=True)
    prepared = prepare(published, tmp_path / "mine")
    assert (len(prepared.graph.valid), len(prepared.graph.test)) == (11, 13)
    assert (prepared.counts["valid_left_out"], prepared.counts["test_left_out"]) == (0, 0)
    [note] = data_notes(prepared.counts)
    assert note == (
        "Not held out, but kept in this data set: 1 test positives that are also in train, 1 valid positives that are "
        "also in test."
    )
    assert published.identity() != spec.identity()
    names = [name for name in DATASETS.names() if DATASETS.get(name).as_published]
    assert names == ["family", "fb13", "fb15k-237", "wn11", "wn18rr", "yago39k"]


def test_many_true_corruptions_are_reported() -> None:
    assert hidden_fact_notes(0.0099, {}) == []
    [note] = hidden_fact_notes(0.3418, {})
    assert note.startswith("34 % of the corruptions that synthetic calibrators are fitted to are facts of test.")
