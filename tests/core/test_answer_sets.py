"""Answer sets on scores that are chosen: their coverage, their groups, and what they contain."""

import numpy as np
import pytest

from kgcore.answer.answer_sets import AnswerSets, coverage_of
from kgcore.answer.conformal import KINDS, SetRule
from kgcore.answer.domains import Domains
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.models.trained import TrainedModel
from tests.core.scored_graphs import table_model


def graph_of(rng: np.random.Generator, per_split: int) -> tuple[TrainedModel, KnowledgeGraph]:
    """Return a model and a graph of 3 predicates: all splits have `per_split` facts of the first, 30 of the others."""
    subjects, objects = 4 * per_split, 25
    scores = rng.normal(size=(subjects, objects))
    splits = []
    for _ in range(3):
        predicates = np.repeat([0, 1, 2], [per_split, 30, 30])
        rows = rng.integers(subjects, size=len(predicates))
        answers = np.array([rng.choice(objects, p=_shares(2 * scores[row])) for row in rows])
        splits.append(Split(np.stack([rows, predicates, subjects + answers], axis=1), np.ones(len(rows))))
    names = [f"e{i}" for i in range(subjects + objects)]
    return table_model(scores, 3), KnowledgeGraph("g", names, ["p", "q", "r"], *splits)


def _shares(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum()


def rules_of(sets: AnswerSets, predicates: int) -> dict[int, SetRule]:
    return {predicate: sets.rule(sets.group(predicate)) for predicate in range(predicates)}


def test_test_queries_are_covered_as_often_as_asked(rng: np.random.Generator) -> None:
    found = []
    for _ in range(4):
        model, graph = graph_of(rng, 300)
        sets = AnswerSets(model, graph, Domains(graph), OBJECT, 0.9)
        measured = coverage_of(sets, graph.test.positives, rules_of(sets, 3))
        assert measured.queries == 360
        assert 1 < measured.size < 20
        found.append(measured.covered)
    assert 0.88 < np.mean(found) < 0.93


def test_small_predicates_are_pooled(rng: np.random.Generator) -> None:
    model, graph = graph_of(rng, 120)
    sets = AnswerSets(model, graph, Domains(graph), OBJECT, 0.9)
    assert sets.group(0).tolist() == [0]
    assert sets.group(1).tolist() == [0, 1, 2]  # the small ones together have 60 triples: too few, so all
    assert [(rule.pooled, rule.queries) for rule in rules_of(sets, 2).values()] == [(False, 120), (True, 180)]


@pytest.mark.parametrize("side", [SUBJECT, OBJECT])
@pytest.mark.parametrize("kind", KINDS)
def test_a_set_has_what_its_rule_accepts_and_no_known_fact(rng: np.random.Generator, kind: str, side: int) -> None:
    model, graph = graph_of(rng, 40)
    sets = AnswerSets(model, graph, Domains(graph, is_typed=False), side, 0.9)
    triple = graph.test.triples[:1]
    standing = sets.standing(triple, is_typed=False)
    rule = SetRule(kind, float(standing.nonconformity(kind)[0]), 0.9, 10, False, False)
    asking = SUBJECT if side == OBJECT else OBJECT
    every = np.repeat(triple, len(graph.entities), axis=0)
    every[:, side] = np.arange(len(graph.entities))
    unknown = every[~graph.all_known.contains(every) & (every[:, 0] != every[:, 2]) | (every == triple).all(1)]
    scores, own = model.score(unknown), model.score(triple)[0]
    accepted = unknown[scores >= own - 1e-5]
    assert len(accepted) == sets.sizes(triple, [rule])[0, 0]
    assert sets.covered(triple, rule).all()
    made = sets.of(int(triple[0, 1]), int(triple[0, asking]), rule)
    assert not graph.all_known.contains(made).any()
    if kind == "score":  # as a known fact, the test triple itself is no answer
        np.testing.assert_array_equal(made, accepted[~(accepted == triple).all(1)])


def test_with_too_few_queries_a_set_has_every_entity(rng: np.random.Generator) -> None:
    model, graph = graph_of(rng, 40)
    sets = AnswerSets(model, graph, Domains(graph), OBJECT, 0.9)
    rule = SetRule("score", np.inf, 0.9, 3, False, True)
    triples = sets.of(0, 0, rule)
    known = sum(((split.triples[:, 0] == 0) & (split.triples[:, 1] == 0)).sum() for split in (graph.train, graph.valid))
    assert len(triples) >= len(graph.entities) - 1 - known - len(graph.test)
    assert sets.covered(graph.test.triples, rule).all()
    assert (sets.sizes(graph.test.triples, [rule]) == len(graph.entities)).all()
