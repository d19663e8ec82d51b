"""The gains by which a race judges its contenders, and the populations that they are about."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.answer.domains import Domains
from kgcore.answer.population.draw import random_candidates
from kgcore.answer.population.population import Population
from kgcore.config import CorruptConfig
from kgcore.config.base import POPULATIONS
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.ranking import filtered_ranks
from kgcore.embed.training.loop import train
from kgcore.errors import InputError
from kgcore.measure.metrics.classification import rank_gain, rank_metrics
from kgcore.wings.tuning.objective import MissingFacts, SearchObjective, brier_gain
from tests.core.searches import BASE, CPU, without_negatives, without_test


@pytest.fixture
def graph(small_graph: KnowledgeGraph) -> KnowledgeGraph:
    return without_test(small_graph)


def judge(graph: KnowledgeGraph, judged_on: str = "all") -> SearchObjective:
    return SearchObjective(graph, "gain", CorruptConfig(), 0.5, np.random.default_rng(0), judged_on)


def test_the_gain_of_ranks_by_hand() -> None:
    # a random order of 4 has log(4!) / 4 on average
    assert rank_gain(np.array([1.0, 2.0]), np.array([4.0, 4.0])) == pytest.approx(1 - 2 * np.log(2) / np.log(24))
    assert rank_gain(np.ones(3), np.array([9.0, 5.0, 2.0])) == 1
    assert rank_gain(np.ones(2), np.ones(2)) == 0


@given(st.integers(2, 200))
def test_a_random_order_gains_nothing(size: int) -> None:
    assert rank_gain(np.arange(1.0, size + 1), np.full(size, float(size))) == pytest.approx(0, abs=1e-9)


def test_the_gain_of_probabilities_by_hand() -> None:
    truth, weights = np.array([1.0, 0.0, 0.0]), np.array([2.0, 1.0, 1.0])
    assert brier_gain(np.array([1.0, 0.5, 0.0]), truth, weights) == pytest.approx(1 - 0.25 / 4 / 0.25)
    assert brier_gain(np.full(3, 0.5), truth, weights) == pytest.approx(0)


def test_facts_are_ranked_among_the_missing_facts_of_their_predicate() -> None:
    facts = np.array([[0, 0, 1], [0, 1, 1], [2, 1, 2]])
    candidates = np.array([[3, 0, 1], [4, 0, 1], [5, 1, 1], [6, 1, 1]])
    ranks, sizes = MissingFacts(facts, candidates)._ranks(np.array([0.5, 2.0, 0.0]), np.array([1.0, 0.0, 2.0, 1.0]))
    assert ranks.tolist() == [2, 1.5, 3]  # a tie counts half
    assert sizes.tolist() == [3, 3, 3]


def test_random_candidates_are_missing_facts_in_proportion_to_validation(graph: KnowledgeGraph) -> None:
    population = Population.asked(Domains(graph), None, 1)
    assert population is not None
    drawn = random_candidates(population, 5_000, np.random.default_rng(0))
    assert len(np.unique(drawn, axis=0)) == len(drawn)
    assert not graph.all_known.contains(drawn).any()
    assert {block.predicate for block in population.blocks} == set(drawn[:, 1].tolist())
    for block in population.blocks:
        assert block.holds(drawn[drawn[:, 1] == block.predicate]).all()


def test_a_model_is_judged_on_all_populations_or_on_one(graph: KnowledgeGraph) -> None:
    trained = train(graph, BASE, CPU).model
    figures = judge(graph).measure(trained)
    assert figures["gain"] == pytest.approx(np.mean([figures[name] for name in POPULATIONS]))
    ranks = filtered_ranks(trained, graph.valid.positives, graph.known)
    assert figures["mrr"] == pytest.approx(rank_metrics(ranks)["mrr"])
    assert figures["answers"] == figures["mrr"]
    for name in POPULATIONS:
        alone = judge(graph, name).measure(trained)
        assert alone["gain"] == alone[name]
        assert name == "missing_facts" or alone[name] == pytest.approx(figures[name])


def test_without_missing_facts_the_other_populations_count(graph: KnowledgeGraph) -> None:
    graph = without_negatives(graph)
    few = replace(graph, valid=Split(graph.valid.triples[:10], graph.valid.labels[:10]))
    figures = judge(few).measure(train(few, BASE, CPU).model)
    assert "missing_facts" not in figures
    assert figures["gain"] == pytest.approx((figures["negatives"] + figures["answers"]) / 2)
    with pytest.raises(InputError, match="has too few missing or validation facts to judge models on"):
        judge(few, "missing_facts")
