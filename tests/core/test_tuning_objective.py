"""The metric of a search: by hand, with labelled negatives and with corruptions, and independent of the test split."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.config import CorruptConfig
from kgcore.config.base import OBJECTIVES
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.ranking import filtered_ranks
from kgcore.embed.training.loop import train
from kgcore.errors import FitError, InputError
from kgcore.measure.metrics.classification import rank_metrics
from kgcore.storage.folders import read_graph, write_graph
from kgcore.wings.tuning.objective import SearchObjective, ValidationHalves, halves, held_out
from kgcore.wings.tuning.study import trials_table
from tests.core.searches import BASE, CPU, objective, run, without_negatives, without_test


@pytest.fixture
def graph(small_graph: KnowledgeGraph) -> KnowledgeGraph:
    return without_test(small_graph)


class Scored:
    """A model with fixed scores."""

    def __init__(self, *scores: float) -> None:
        self.scores = np.array(scores)

    def score(self, triples: np.ndarray) -> np.ndarray:
        return self.scores if len(self.scores) > 1 else np.full(len(triples), self.scores[0])


def by_hand() -> ValidationHalves:
    """Return two halves of four triples: labels 0 1 0 1 at scores 0 1 2 3, and labels 0 0 1 1 at 0.5 1.5 2.5 4."""
    labels, second = np.array([0, 1, 0, 1, 0, 0, 1, 1.0]), np.arange(8) >= 4
    return ValidationHalves(np.zeros((8, 3), dtype=np.int64), labels, second, None)


SCORES = (0, 1, 2, 3, 0.5, 1.5, 2.5, 4)


def test_cross_fitted_probabilities_by_hand() -> None:
    # fitted on the second half: 0 up to 1.5, 1 from 2.5; on the first: 0, then 1 and 0 pooled to 1/2, then 1
    np.testing.assert_allclose(by_hand().cross_fitted(np.array(SCORES)), [0, 0, 0.5, 1, 0.25, 0.5, 0.75, 1])


def test_the_figures_by_hand(graph: KnowledgeGraph) -> None:
    judge = objective(graph)
    judge.held_out = by_hand()
    figures = judge.measure(Scored(*SCORES))
    assert figures["brier"] == pytest.approx((0 + 1 + 0.25 + 0 + 0.0625 + 0.25 + 0.0625 + 0) / 8)
    assert figures["accuracy"] == 7 / 8
    lost = [0, -np.log(1e-7), np.log(2), 0, -np.log(0.75), np.log(2), -np.log(0.75), 0]
    assert figures["log_loss"] == pytest.approx(np.mean(lost), abs=1e-6)
    assert set(figures) == {"brier", "accuracy", "log_loss"}


@pytest.mark.parametrize("base_rate", [0.1, 0.4, 0.8])
def test_without_labelled_negatives_a_constant_score_is_worth_the_base_rate(
    graph: KnowledgeGraph, base_rate: float
) -> None:
    figures = objective(without_negatives(graph), base_rate=base_rate).measure(Scored(3.0))
    assert figures["brier"] == pytest.approx(base_rate * (1 - base_rate))
    assert figures["accuracy"] == pytest.approx(max(base_rate, 1 - base_rate))


def test_corruptions_are_not_known_facts_and_are_in_the_half_of_their_positive(graph: KnowledgeGraph) -> None:
    graph, rng = without_negatives(graph), np.random.default_rng(0)
    count = len(graph.valid)
    held = held_out(graph, CorruptConfig(calibration_eta=3, calibration_filtered=False), 0.5, rng)
    np.testing.assert_array_equal(held.second[count:], np.repeat(held.second[:count], 3))
    assert held.second[:count].sum() == -(-count // 2)
    filtered = held_out(graph, CorruptConfig(), 0.5, rng)
    assert not graph.known.contains(filtered.triples[count:]).any()
    assert (filtered.triples[:count] == graph.valid.triples).all()
    other = held_out(graph, CorruptConfig(calibration_seed=1), 0.5, rng)
    assert len(other.triples) != len(filtered.triples) or (other.triples != filtered.triples).any()


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1), st.integers(0, 100))
def test_each_label_is_split_into_two_equal_halves(labels: list[float], seed: int) -> None:
    given = np.array(labels)
    second = halves(given, np.random.default_rng(seed))
    for label in (0, 1):
        assert abs(second[given == label].sum() - (~second)[given == label].sum()) <= 1
    assert (second == halves(given, np.random.default_rng(seed))).all()


def test_the_mrr_is_measured_on_validation_positives(graph: KnowledgeGraph) -> None:
    trained = train(graph, BASE, CPU).model
    expected = rank_metrics(filtered_ranks(trained, graph.valid.positives, graph.known))["mrr"]
    assert objective(graph, "mrr").measure(trained)["mrr"] == pytest.approx(expected)


def test_a_graph_or_a_model_that_cannot_be_measured_is_refused(
    graph: KnowledgeGraph, small_graph: KnowledgeGraph
) -> None:
    with pytest.raises(InputError, match="the graph small has a test split: a search needs a graph without one"):
        objective(small_graph)
    with pytest.raises(InputError, match="unknown metric 'ece': the known ones are brier, log_loss, accuracy, mrr"):
        objective(graph, "ece")
    few = Split(graph.valid.triples[69:], graph.valid.labels[69:])
    with pytest.raises(InputError, match="the validation split has 1 triples of one label"):
        objective(replace(graph, valid=few))
    with pytest.raises(
        InputError, match="calibration_strategy is near_miss: a search needs strategies that draw without a model"
    ):
        SearchObjective(
            without_negatives(graph),
            "brier",
            CorruptConfig(calibration_strategy={"near_miss": 1}),
            0.5,
            np.random.default_rng(0),
        )
    with pytest.raises(FitError, match="not finite numbers: lower the learning rate"):
        objective(graph).measure(Scored(float("nan")))


@pytest.mark.parametrize("labelled", [True, False])
def test_the_test_split_changes_nothing(small_graph: KnowledgeGraph, tmp_path: Path, labelled: bool) -> None:
    """Two stored graphs differ only in their test split, and the file of one test split is missing."""
    given = small_graph if labelled else without_negatives(small_graph)
    found = []
    for name, test in (("one", given.test), ("other", Split(given.valid.triples[:9], np.ones(9)))):
        write_graph(tmp_path / name, replace(given, test=test))
        if name == "one":
            (tmp_path / name / "test.parquet").unlink()
        graph = read_graph(tmp_path / name, test=False)
        assert len(graph.test) == 0
        study = run(graph, tmp_path / f"{name}.db", total=3)
        found.append((graph.fingerprint(), trials_table(study).drop(columns="seconds").to_json()))
    assert found[0] == found[1]


def test_the_direction_of_every_metric() -> None:
    assert OBJECTIVES == {
        "brier": "minimize",
        "log_loss": "minimize",
        "accuracy": "maximize",
        "mrr": "maximize",
        "gain": "maximize",
    }
