"""Stated numbers of true candidates that the candidates contradict: simulated surveys whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, gamma

from kgcore.answer.population.fit import CERTAIN, LIKELY, fit_population, most_true
from kgcore.answer.population.population import UnknownFacts
from kgcore.answer.population.survey import Survey
from kgcore.arrays import Floats, Ints
from tests.core.populations import simulated_survey


def given(true: float) -> UnknownFacts:
    half = np.full(2, true / 2)
    return UnknownFacts(half, half, half, "a test", by_predicate=False)


def both(made: Survey) -> tuple[tuple[Floats, Ints], tuple[Floats, Ints]]:
    """The log-odds and predicates of the facts, and of the candidates."""
    return (made.of_facts, made.facts[:, 1]), (made.log_odds, made.drawn.triples[:, 1])


def test_a_number_of_true_candidates_that_the_evidence_contradicts_is_not_reached() -> None:
    rng = np.random.default_rng(0)
    made, _, _ = simulated_survey(5, true=300, facts=400, candidates=8_000)
    likely = rng.random(8_000) < 0.02  # of a kind of its own, as all facts are
    made = replace(made, log_odds=np.where(likely, rng.normal(9, 0.1, 8_000), made.log_odds))
    made = replace(made, of_facts=rng.normal(9, 0.1, 400))
    sizes = np.bincount(made.drawn.triples[:, 1])
    for true, expected in (
        (likely.sum() / 2, likely.sum() / 2),
        (likely.sum() * 4.0, most_true(*both(made), 2, [LIKELY]).sum() * 0.75),
    ):
        fit = fit_population(made, given(true), sizes, "graph", np.random.default_rng(0))
        q = fit.probabilities(made.log_odds, made.drawn.triples[:, 1])
        assert q[likely].sum() == pytest.approx(expected, rel=0.1)
        assert q[~likely].sum() < 0.15 * likely.sum()
        assert fit.unknown.contradicted == (() if true < likely.sum() else (0, 1))
        count = fit.count(made.log_odds[likely], made.drawn.triples[likely, 1], rng)
        assert true < likely.sum() or count.low < 0.4 * likely.sum() < 0.7 * likely.sum() < count.high


def test_there_are_no_more_true_candidates_than_candidates_where_the_facts_are() -> None:
    made, _, _ = simulated_survey(3, true=300, facts=40, candidates=600)
    levels = LIKELY, CERTAIN
    for level, of_level in zip(levels, most_true(*both(made), 2, levels).tolist(), strict=True):
        for predicate, limit in enumerate(of_level):
            facts = made.of_facts[made.facts[:, 1] == predicate]
            candidates = made.log_odds[made.drawn.triples[:, 1] == predicate]
            limits = []
            for z in facts:
                k, m, u = int((facts >= z).sum()), len(facts), int((candidates >= z).sum())
                limits.append(gamma.isf(level, u + 1) / beta.ppf(level, k, m - k + 1))
            assert limit == pytest.approx(min(limits), rel=1e-9)


@pytest.mark.long
def test_a_number_is_contradicted_only_where_the_graph_is_more_complete_than_stated() -> None:
    contradicted = []
    for seed in range(20):
        made, _, true = simulated_survey(300 + seed, true=300, facts=200, candidates=8_000)
        own = np.bincount(made.drawn.triples[true, 1], minlength=2)
        for factor in (1, 30):  # of the second predicate's number
            numbers = own * np.array([1, factor])
            given = UnknownFacts(numbers, numbers, numbers, "a test", by_predicate=True)
            sizes = np.bincount(made.drawn.triples[:, 1])
            contradicted.append(
                fit_population(made, given, sizes, "graph", np.random.default_rng(0)).unknown.contradicted
            )
    assert contradicted == [(), (1,)] * 20


@pytest.mark.long
def test_a_number_of_all_predicates_is_contradicted_by_all_their_candidates_together() -> None:
    """Each predicate has too few facts to contradict five times its number. All of them together have enough."""
    contradicted = []
    for seed in range(10):
        made, _, true = simulated_survey(400 + seed, true=160, facts=320, candidates=8_000)
        predicates = np.random.default_rng(seed).integers(16, size=8_000)
        triples, facts = made.drawn.triples.copy(), made.facts.copy()
        triples[:, 1], facts[:, 1] = predicates, predicates[made.facts[:, 0]]
        order = np.argsort(facts[:, 1], kind="stable")
        drawn = replace(made.drawn, triples=triples, lowest=dict.fromkeys(range(16), -np.inf))
        made = replace(made, drawn=drawn, facts=facts[order], of_facts=made.of_facts[order])
        shares = np.bincount(facts[:, 1], minlength=16) / len(facts)
        sizes = np.bincount(predicates)
        for factor, by_predicate in ((1, False), (5, False), (5, True)):
            numbers = shares * true.sum() * factor
            given = UnknownFacts(numbers, numbers, numbers, "a test", by_predicate)
            fit = fit_population(made, given, sizes, "graph", np.random.default_rng(0))
            contradicted.append(len(fit.unknown.contradicted))
            if factor > 1 and not by_predicate:
                assert fit.unknown.total < 2 * true.sum()
    assert contradicted[::3] == [0] * 10
    assert contradicted[1::3] == [16] * 10
    assert np.mean(contradicted[2::3]) < 4


def test_numbers_that_candidates_contradict_leave_the_others_as_they_are() -> None:
    values = np.array([30.0, 500.0, 70.0])
    given = UnknownFacts(values, values, values, "a test", by_predicate=False)
    changed = given.at_most(np.array([90.0, 40.0, 90.0]), np.array([95.0, 60.0, 95.0]))
    np.testing.assert_allclose(changed.values, [30.0, 40.0 * 0.75, 70.0])
    drawn = np.array([changed.drawn(np.array([3.0, 9.0, 7.0]), np.random.default_rng(seed)) for seed in range(400)])
    np.testing.assert_allclose(drawn[:, [0, 2]].sum(axis=1), 100.0)
    np.testing.assert_allclose(drawn.mean(axis=0), [30.0, 40.0 * 0.75, 70.0], atol=2.5)
    assert drawn[:, 1].min() < 5
    assert drawn[:, 1].max() > 38
    kept = changed.drawn(np.array([0.0, 9.0, 0.0]), np.random.default_rng(0))  # no fact of the others is drawn
    assert kept[[0, 2]].tolist() == [30.0, 70.0]


def test_an_interval_of_a_number_ends_at_the_limit_of_the_candidates() -> None:
    low, middle, high = np.array([10.0, 80.0, 10.0]), np.array([50.0, 90.0, 20.0]), np.array([90.0, 100.0, 30.0])
    given = UnknownFacts(middle, low, high, "a test", by_predicate=True)
    changed = given.at_most(np.full(3, 40.0), np.full(3, 60.0))
    assert changed.contradicted == (1,)
    assert changed.values.tolist() == [35.0, 30.0, 20.0]
    assert changed.high.tolist() == [60.0, 40.0, 30.0]
