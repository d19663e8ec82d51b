"""All corruptions of a positive, and the distributions of the strategies that give them their weights."""

import numpy as np
import pytest
from scipy.stats import chisquare

from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Mixture, Strategy, corrupt, subject_shares
from kgcore.embed.corruptions.choice import best_of
from kgcore.embed.corruptions.held_out import audit, corrupt_held_out, every_corruption
from kgcore.errors import InputError
from kgcore.registries import STRATEGIES
from tests.core.drawn import drawing, graph_of

DRAWN_ONLY = {"batch", "kbgan"}
FORMULAS = sorted(set(STRATEGIES.names()) - DRAWN_ONLY)


def check_frequencies(strategy: Strategy, triple: list[int], column: int, draws: int = 4000) -> None:
    """Compare the frequencies of many draws for a triple with the probabilities, by a chi-squared test."""
    triples = np.array([triple])
    expected = strategy.distribution(triples, column)
    assert expected is not None
    [chances] = expected
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert chances.min() >= 0
    assert chances[triple[column]] == 0
    repeated, rng = np.repeat(triples, draws, axis=0), np.random.default_rng(1)
    counts = np.bincount(strategy.draw_one(repeated, column, rng), minlength=len(chances))
    assert not counts[chances == 0].any()
    order = np.argsort(chances)
    rare = order[np.cumsum(chances[order]) * draws < 5]  # one group of rare entities
    often = np.setdiff1d(order, rare)
    groups = np.array([[counts[part].sum(), chances[part].sum() * draws] for part in (*often[:, None], rare)])
    groups = groups[groups[:, 1] > 1]
    groups[:, 1] *= groups[:, 0].sum() / groups[:, 1].sum()
    assert len(groups) == 1 or chisquare(*groups.T).pvalue > 1e-4


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("column", [SUBJECT, OBJECT])
def test_draws_have_the_distribution_of_the_strategy(small_graph: KnowledgeGraph, name: str, column: int) -> None:
    strategy = drawing(name, small_graph)
    for triple in small_graph.valid.positives[:3].tolist():
        check_frequencies(strategy, triple, column)


@pytest.mark.parametrize("name", FORMULAS)
def test_distributions_of_a_block_are_those_of_its_triples(small_graph: KnowledgeGraph, name: str) -> None:
    strategy, triples = drawing(name, small_graph), small_graph.valid.positives[:20]
    together = strategy.distribution(triples, OBJECT)
    alone = np.concatenate([strategy.distribution(triples[[row]], OBJECT) for row in range(len(triples))])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", FORMULAS)
def test_fallbacks_are_part_of_the_distribution(name: str) -> None:
    """Predicate 1 has one object, and every subject of it has a fact of predicate 0: few candidates are left."""
    graph = graph_of([(0, 0, 1), (0, 0, 2), (1, 0, 2), (3, 0, 4), (0, 1, 2), (3, 1, 2), (1, 1, 2)], 6)
    for triple in ([0, 1, 2], [0, 0, 1], [5, 1, 2]):
        for column in (SUBJECT, OBJECT):
            check_frequencies(drawing(name, graph), triple, column)


@pytest.mark.parametrize("name", sorted(DRAWN_ONLY))
def test_strategies_without_a_formula_are_drawn(small_graph: KnowledgeGraph, name: str) -> None:
    strategy, triples = drawing(name, small_graph), small_graph.valid.positives
    shares = subject_shares(small_graph, "both")
    assert strategy.distribution(triples, OBJECT) is None
    assert every_corruption(triples, 10**9, strategy, shares) is None
    assert Mixture(small_graph, {"typed": 1, name: 1}).distribution(triples, OBJECT) is None


def test_the_best_of_two_candidates_by_hand() -> None:
    """Of ratings 1, 2, 2 and -inf: (.1 + .2)^2 - .1^2 = .08 for 1, 1 - .3^2 = .91 for both 2, .01 for none."""
    chances, ratings = np.array([0.2, 0.2, 0.5, 0.1]), np.array([1, 2, 2, -np.inf])
    best, none = best_of(chances, ratings, 2)
    np.testing.assert_allclose(best, [0.08, 0.91 * 2 / 7, 0.91 * 5 / 7, 0])
    assert none == pytest.approx(0.01)


def test_a_mixture_adds_the_distributions_of_its_parts(small_graph: KnowledgeGraph) -> None:
    mixture = Mixture(small_graph, {"typed": 1, "relational": 2, "similar": 1})
    check_frequencies(mixture, small_graph.valid.positives[0].tolist(), SUBJECT)


def test_all_corruptions_by_hand() -> None:
    """Of (0, 0, 1): objects 2, 3 are facts, so object 0 or 4, or subject 1 to 4, all with the same probability."""
    graph = graph_of([(0, 0, 1), (0, 0, 2), (0, 0, 3)], 5)
    uniform, positives = STRATEGIES.get("uniform")(graph), np.array([[0, 0, 1], [4, 0, 1]])
    made = every_corruption(positives, 100, uniform, subject_shares(graph, "both"), graph.known)
    assert made is not None
    assert made.weights is not None
    first = made.source == 0
    assert [list(t) for t in made.triples[first].tolist()] == [
        [1, 0, 1], [2, 0, 1], [3, 0, 1], [4, 0, 1], [0, 0, 0], [0, 0, 4]
    ]  # fmt: skip
    assert (made.dropped, made.redrawn) == (0, 3)  # (0, 0, 1) itself is a corruption of (4, 0, 1), too
    np.testing.assert_allclose(made.weights[first], 13 / 2 / 6)
    np.testing.assert_allclose(made.weights[~first], 13 / 2 / 7)
    assert made.weights.mean() == pytest.approx(1)
    assert every_corruption(positives, 12, uniform, subject_shares(graph, "both"), graph.known) is None


@pytest.mark.parametrize("sides", ["both", "subject", "bernoulli", "object=0.7"])
@pytest.mark.parametrize("filtered", [True, False])
def test_weights_are_the_frequencies_of_draws(small_graph: KnowledgeGraph, sides: str, filtered: bool) -> None:
    positives = small_graph.valid.positives[:3]
    known, shares = small_graph.known if filtered else None, subject_shares(small_graph, sides)
    mixture = Mixture(small_graph, {"typed": 0.5, "similar": 0.5})
    made = every_corruption(positives, 10**6, mixture, shares, known)
    assert made is not None
    assert made.weights is not None
    drawn = corrupt(positives, 4000, mixture, np.random.default_rng(0), shares, known)
    for row in range(3):
        own, other = made.source == row, drawn.triples[drawn.source == row]
        keys, counts = np.unique(other @ [10**6, 10**3, 1], return_counts=True)
        mine = made.triples[own] @ [10**6, 10**3, 1]
        assert np.isin(keys, mine).all()
        found = np.zeros(len(mine))
        found[np.argsort(mine)[np.searchsorted(np.sort(mine), keys)]] = counts
        expected = made.weights[own] / made.weights[own].sum() * len(other)
        assert made.weights[own].sum() == pytest.approx(len(made.triples) / 3)
        assert chisquare(found, expected).pvalue > 1e-4


def test_blocks_do_not_change_the_corruptions(small_graph: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    positives, shares = small_graph.valid.positives, subject_shares(small_graph, "bernoulli")
    mixture = Mixture(small_graph, {"typed": 0.5, "similar": 0.5})
    whole = every_corruption(positives, 10**6, mixture, shares, small_graph.known)
    monkeypatch.setattr("kgcore.embed.corruptions.held_out.CELLS", 40 * 7)
    parts = every_corruption(positives, 10**6, mixture, shares, small_graph.known)
    assert whole is not None
    assert parts is not None
    np.testing.assert_array_equal(whole.triples, parts.triples)
    np.testing.assert_allclose(whole.weights, parts.weights, rtol=1e-12)


def test_held_out_makes_all_corruptions_only_where_draws_would_repeat_them(small_graph: KnowledgeGraph) -> None:
    uniform, rng = STRATEGIES.get("uniform")(small_graph), np.random.default_rng(0)
    drawn = corrupt_held_out(small_graph, 20, uniform, rng, "both", True)["valid"]
    few = corrupt_held_out(small_graph, 20, uniform, np.random.default_rng(0), "both", True, 20 * 80)["valid"]
    np.testing.assert_array_equal(drawn.triples, few.triples)
    assert few.weights is None
    every = corrupt_held_out(small_graph, 200, uniform, rng, "both", True, 200 * 80)["valid"]
    assert every.weights is not None
    assert len(np.unique(np.c_[every.source, every.triples], axis=0)) == len(every.triples)
    figures = audit(small_graph, "valid", every)
    assert figures["every"] == 1
    assert figures["on_subject"] == pytest.approx(0.5, abs=0.05)
    many = corrupt_held_out(small_graph, 2000, uniform, rng, "both", True)["valid"]
    sampled = audit(small_graph, "valid", many)
    assert sampled["every"] == 0
    for name in ("true_in_test", "on_subject", "outside_range", "true_in_train"):
        assert figures[name] == pytest.approx(sampled[name], abs=0.005), name


def test_an_impossible_filter_is_an_error() -> None:
    graph = graph_of([(0, 0, 1), (1, 0, 0), (0, 0, 0), (1, 0, 1)], 2)
    uniform = STRATEGIES.get("uniform")(graph)
    with pytest.raises(InputError, match="known facts"):
        every_corruption(np.array([[0, 0, 1]]), 10, uniform, subject_shares(graph, "both"), graph.known)
