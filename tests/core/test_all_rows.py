"""Rows with entities that training lacks: their figures with all other rows, and their files."""

from pathlib import Path

import numpy as np
import pytest

from kgcore.calibrate.calibrated import UnseenProbabilities
from kgcore.data.datasets.read import UnseenRows
from kgcore.data.graph import Split
from kgcore.measure.evaluation.groups import AllRows
from kgcore.storage.tables import read_answers, read_unseen, write_answers, write_unseen


def test_figures_by_hand() -> None:
    known = np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0])
    found = AllRows.of(known, (np.array([0.8]), np.array([1.0])))
    expected = {
        "all_rows_rows": 4,
        "all_rows_unseen": 1,
        "all_rows_accuracy": 3 / 4,
        "all_rows_brier": (0.01 + 0.04 + 0.36 + 0.04) / 4,
        "all_rows_log_loss": -np.log([0.9, 0.8, 0.4, 0.8]).mean(),
        "all_rows_unseen_accuracy": 1.0,
    }
    assert found.figures() == pytest.approx(expected)
    assert "All 4 test rows, 1 with entities that training has not seen included: accuracy 0.7500" in found.note("x")


def test_the_decision_threshold_counts() -> None:
    rows = np.array([0.9, 0.2, 0.6]), np.array([1.0, 0.0, 0.0])
    assert AllRows.of(rows, rows, 0.7).accuracy == 1.0


def test_files_give_the_same_rows_and_answers(tmp_path: Path) -> None:
    parts = {"valid": Split(np.array([[7, 0, 1], [2, 1, 8]]), np.array([1.0, 0.0]))}
    parts["test"] = Split(np.array([[7, 1, 8]]), np.array([1.0]))
    write_unseen(tmp_path / "unseen.parquet", UnseenRows(("élan_1", "zebra_1"), parts))
    read = read_unseen(tmp_path / "unseen.parquet")
    assert read.names == ("élan_1", "zebra_1")
    for name, part in parts.items():
        np.testing.assert_array_equal(read.splits[name].triples, part.triples)
        np.testing.assert_array_equal(read.splits[name].labels, part.labels)
    answers = UnseenProbabilities(np.array([0.1, 1 / 3]), np.array([0.0, 0.1]), np.array([0.5, 0.9]))
    write_answers(tmp_path / "answers.parquet", answers)
    found = read_answers(tmp_path / "answers.parquet")
    for name in ("probabilities", "low", "high"):
        np.testing.assert_array_equal(getattr(found, name), getattr(answers, name))
