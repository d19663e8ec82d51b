"""Triples with a twin in train: which they are, how many are true, and what they change."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kgcore.answer.population.calibration import _shares_with_twins
from kgcore.answer.population.fit import fit_population
from kgcore.answer.population.population import UnknownFacts
from kgcore.arrays import Triples
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.fit import beside_twins
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.data.stored_twins import Twins
from kgcore.embed.corruptions.base import Mixture
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.evidence.twins import UnknownTwins
from kgcore.scores.table import Evidence, TableEvidence
from tests.core.populations import simulated_survey

KNOWS, PARENT, CHILD, LIKES = range(4)
ENTITIES = 40


def graph_of(train: Triples, valid: Triples, together: bool = True) -> KnowledgeGraph:
    splits = [Split(part, np.ones(len(part))) for part in (train, valid, valid[:0])]
    names = [f"e{number}" for number in range(ENTITIES)]
    return KnowledgeGraph("g", names, ["knows", "parent", "child", "likes"], *splits, twins_together=together)


def facts(pairs: Triples, predicate: int) -> Triples:
    return np.c_[pairs[:, 0], np.full(len(pairs), predicate), pairs[:, 1]]


def graph_with_single_facts(seed: int) -> tuple[KnowledgeGraph, Triples]:
    """Return a graph in which some facts lack their twin, and the missing twins of training facts.

    knows is symmetric, child is the inverse of parent, likes is neither. Twins of validation facts are in valid.
    """
    rng = np.random.default_rng(seed)
    ends = np.stack(np.triu_indices(ENTITIES, 1), axis=1)
    pairs, parents, liked = (rng.permutation(ends)[:count] for count in (200, 150, 100))
    train_pairs, valid_pairs, train_parents, valid_parents = pairs[20:], pairs[:20], parents[20:], parents[:20]
    single = train_pairs[:15, ::-1], train_parents[:10, ::-1]
    train = np.concatenate(
        [
            *(facts(train_pairs, KNOWS), facts(train_pairs[15:, ::-1], KNOWS)),
            *(facts(train_parents, PARENT), facts(train_parents[10:, ::-1], CHILD), facts(liked, LIKES)),
        ]
    )
    valid = np.concatenate(
        [
            *(facts(valid_pairs, KNOWS), facts(valid_pairs[:, ::-1], KNOWS)),
            *(facts(valid_parents, PARENT), facts(valid_parents[:, ::-1], CHILD)),
        ]
    )
    return graph_of(train, valid), np.concatenate([facts(single[0], KNOWS), facts(single[1], CHILD)])


def test_the_triples_with_a_twin_are_those_that_a_second_formula_finds() -> None:
    graph, missing = graph_with_single_facts(0)
    train, twins = {tuple(row) for row in graph.train.triples.tolist()}, Twins.of(graph)
    every = np.stack(np.meshgrid(range(ENTITIES), range(4), range(ENTITIES), indexing="ij"), axis=-1).reshape(-1, 3)
    kinds = {KNOWS: KNOWS, PARENT: CHILD, CHILD: PARENT}
    expected = [s != o and p in kinds and (o, kinds[p], s) in train for s, p, o in every.tolist()]
    assert twins.has_twin(every).tolist() == expected
    assert {tuple(row) for row in twins.every().tolist()} == {tuple(row) for row in every[expected].tolist()}
    unknown = twins.every()[~graph.known.contains(twins.every())]
    assert {tuple(row) for row in unknown.tolist()} == {tuple(row) for row in missing.tolist()}


def test_the_share_with_a_twin_is_that_of_the_training_facts() -> None:
    graph, _ = graph_with_single_facts(1)
    twins = Twins.of(graph)
    assert twins.shares == pytest.approx([330 / 345, 120 / 130, 1.0, 0.0])


def test_what_validation_facts_show_is_not_assumed() -> None:
    """As in a split by time, validation facts of `knows` have twins in train as often as training facts have."""
    graph, _ = graph_with_single_facts(1)
    train = graph.train.triples
    held_out = np.isin(np.arange(len(train)), np.flatnonzero(train[:, 1] == KNOWS)[20:50])
    apart = graph_of(train[~held_out], train[held_out])
    twins = Twins.of(apart)
    assert twins.has_twin(apart.valid.triples).mean() > 0.8
    assert twins.shares[KNOWS] == 0
    assert not (twins.every()[:, 1] == KNOWS).any()


def test_a_doubtful_fact_is_no_twin() -> None:
    graph, _ = graph_with_single_facts(1)
    likely = Twins.of(graph)
    train = graph.train.triples
    confidences = np.where(train[:, 1] == CHILD, 0.4, 0.9)
    doubtful = Twins.of(replace(graph, train=Split(train, np.ones(len(train)), confidences)))
    assert likely.shares[PARENT] > 0.9
    assert doubtful.shares[PARENT] == 0


def test_no_corruption_has_a_twin_in_train(rng: np.random.Generator) -> None:
    graph, missing = graph_with_single_facts(3)
    for together in (True, False):
        own = replace(graph, twins_together=together)
        made = corrupt_held_out(own, 200, Mixture(own, {"uniform": 1.0}), rng, "both", filtered=True)["valid"]
        assert graph.index(missing).contains(made.triples).any() is np.bool_(not together)


def test_a_fact_is_no_twin_of_its_rare_special_cases_but_these_are_twins_of_it() -> None:
    """Ten countries have three cities each: the first one is the capital, the second one the port."""
    cities = np.c_[np.arange(30), np.repeat(np.arange(30, 40), 3)]
    train = np.concatenate([facts(cities, KNOWS), facts(cities[:27:3], PARENT), facts(cities[1:27:3], CHILD)])
    twins = Twins.of(graph_of(train, facts(cities[27:28], PARENT)))
    assert not twins.has_twin(np.concatenate([facts(cities, predicate) for predicate in (PARENT, CHILD)])).any()
    assert twins.has_twin(facts(cities, KNOWS)).tolist() == [True, True, False] * 9 + [False] * 3
    assert (
        twins.of_predicate(KNOWS).tolist()
        == facts(np.concatenate([cities[:27:3], cities[1:27:3]]), KNOWS)[np.argsort(np.r_[0:27:3, 1:27:3])].tolist()
    )


def test_a_fact_is_a_twin_of_its_frequent_special_cases() -> None:
    """Half of the parents are mothers, the others fathers. Two facts of each predicate are not stored."""
    pairs = np.c_[np.arange(20), np.arange(20, 40)]
    mothers, fathers = facts(pairs[2::2], PARENT), facts(pairs[3::2], CHILD)
    twins = Twins.of(graph_of(np.concatenate([facts(pairs[:18], KNOWS), mothers, fathers]), facts(pairs[18:], KNOWS)))
    assert twins.has_twin(facts(pairs, PARENT)).tolist() == [True] * 18 + [False] * 2
    assert twins.has_twin(facts(pairs, KNOWS)).tolist() == [False] * 2 + [True] * 18
    assert twins.of_predicate(CHILD).tolist() == facts(pairs[:18], CHILD).tolist()


def test_unknown_twins_are_true_by_the_chance_of_their_predicate() -> None:
    graph, missing = graph_with_single_facts(4)
    twins = UnknownTwins.of(graph)
    assert graph.index(missing).contains(twins.triples).all()
    assert np.bincount(twins.triples[:, 1]).tolist() == [15, 0, 10]
    assert np.unique(twins.chances[twins.triples[:, 1] == KNOWS]) == pytest.approx([330 / 345])
    again = UnknownTwins.from_table(*twins.to_table())
    assert (again.triples == twins.triples).all()
    assert (again.chances == twins.chances).all()


def test_a_combiner_sees_each_unknown_twin_as_a_positive_and_a_negative() -> None:
    sample = EvidenceSample(
        ("score",),
        np.zeros((4, 1), np.float32),
        np.array([1.0, 0, 0, 0]),
        np.array([2.0, 2 / 3, 2 / 3, 2 / 3]),
        np.zeros(4, int),
    )
    twins = UnknownTwins(np.array([[0, 2, 1], [1, 2, 0]]), np.array([0.75, 0.5]))
    evidence = TableEvidence(np.arange(2), Evidence(("score",), np.ones((2, 1), np.float32)), ("score",))
    beside = beside_twins(sample, twins, evidence)
    assert beside.labels.tolist() == [1, 0, 0, 0, 1, 1, 0, 0]
    assert beside.weights.tolist() == [2, 2 / 3, 2 / 3, 2 / 3, 1.5, 1, 0.5, 1]
    assert beside.predicates.tolist() == [0, 0, 0, 0, 2, 2, 2, 2]
    assert beside.groups is not None
    assert beside.groups.tolist() == [0, 1, 2, 3, 4, 5, 4, 5]


def test_candidates_with_a_twin_have_the_probability_of_their_number(rng: np.random.Generator) -> None:
    """Of 1,000 true candidates, 300 have a twin, as 400 candidates have. No validation fact has one."""
    survey, _, _ = simulated_survey(0, true=700, facts=1_000)
    with_twin = np.zeros(len(survey.drawn), dtype=bool)
    with_twin[rng.choice(len(with_twin), 400, replace=False)] = True
    survey = replace(survey, twin_shares=0.3 * with_twin, log_odds=np.where(with_twin, 7.0, survey.log_odds))
    sizes = np.bincount(survey.drawn.triples[:, 1])
    values = np.array([500.0, 500.0])
    true = UnknownFacts(values, values, values, "number", by_predicate=False)
    sums = []
    for shares in ({}, {0: 0.3, 1: 0.3}):
        shown = survey.with_twins(shares, rng)
        assert (np.bincount(shown.facts[:, 1]) == np.bincount(survey.facts[:, 1])).all()
        fit = fit_population(shown, true, sizes, "graph", rng)
        sums.append(fit.probabilities(survey.log_odds[with_twin], survey.drawn.triples[with_twin, 1]).sum())
    assert sums[0] < 200
    assert sums[1] == pytest.approx(300, abs=30)


@pytest.mark.parametrize(("missing", "share"), [(200, 0.06), (400, 0.1), (800, 0.0)])
def test_twins_that_are_missing_together_say_nothing(missing: int, share: float) -> None:
    """Of 1,000 facts a tenth has a twin. 40 candidates with one stand for 20 or 40 missing facts, but not for 80."""
    graph, _ = graph_with_single_facts(0)
    survey, _, _ = simulated_survey(0, true=700, facts=1_000)
    with_twin = np.flatnonzero(survey.drawn.triples[:, 1] == 0)[:40]
    survey = replace(survey, twin_shares=0.1 * np.isin(np.arange(len(survey.drawn)), with_twin))
    population = SimpleNamespace(blocks=[SimpleNamespace(predicate=0)], graph=graph, positives=graph.valid.triples)
    population.counts = lambda triples: np.array([float(len(triples))])
    values = np.array([float(missing)])
    true = UnknownFacts(values, values, values, "number", by_predicate=True)
    assert _shares_with_twins(population, survey, true)[0] == pytest.approx(min(share, 40 / missing), abs=0.05)
