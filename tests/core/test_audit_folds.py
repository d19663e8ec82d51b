"""Folds of the training facts: each fact is left out once, and every model knows every name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.audit.folds import KEPT, fact_folds, only_facts, without_fold
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split


def graph_of(triples: np.ndarray, entities: int, predicates: int) -> KnowledgeGraph:
    split = Split(triples, np.ones(len(triples)))
    return KnowledgeGraph(
        "g", [f"e{i}" for i in range(entities)], [f"p{i}" for i in range(predicates)], split, split, split
    )


def names_in(triples: np.ndarray) -> tuple[set[int], set[int]]:
    return set(triples[:, [0, 2]].ravel().tolist()), set(triples[:, 1].tolist())


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 60), st.integers(2, 15), st.integers(1, 4), st.integers(2, 6))
def test_every_model_knows_every_name(seed: int, facts: int, entities: int, predicates: int, folds: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, [entities, predicates, entities], (facts, 3))
    triples = np.unique(drawn, axis=0)
    graph = graph_of(triples, entities, predicates)
    try:
        fold = fact_folds(graph, folds, rng)
    except InputError:
        return
    assert set(fold.tolist()) <= {KEPT, *range(folds)}
    for number in range(folds):
        rest = without_fold(graph, fold, number)
        assert names_in(rest.train.triples) == names_in(triples)
        assert rest.known.contains(triples).all()
        assert rest.entities == graph.entities
    only = only_facts(graph, triples)
    assert all(fold[i] == KEPT for i in range(len(triples)) if only[i])


def test_only_facts_that_cannot_be_left_out_are_kept() -> None:
    triples = np.array([(0, 0, 1), (0, 0, 2), (1, 0, 2), (0, 0, 3), (4, 1, 4)])
    graph = graph_of(triples, 5, 2)
    for seed in range(20):
        fold = fact_folds(graph, 3, np.random.default_rng(seed))
        assert (fold == KEPT).tolist() == [False, False, False, True, True]
    assert only_facts(graph, triples) == ["", "", "", "object", "subject and predicate and object"]


def test_the_folds_are_of_equal_size(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    fold = fact_folds(small_graph, 4, rng)
    assert np.bincount(fold).tolist() == [150] * 4
    assert fact_folds(small_graph, 4, np.random.default_rng(1)).tolist() != fold.tolist()


def test_a_fold_is_the_rest_of_its_training(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    fold = fact_folds(small_graph, 3, rng)
    rest = without_fold(small_graph, fold, 1)
    assert rest.name == "small-fold-2-of-3"
    np.testing.assert_array_equal(rest.train.triples, small_graph.train.triples[fold != 1])
    np.testing.assert_array_equal(rest.other_facts, small_graph.train.triples[fold == 1])
    assert rest.valid is small_graph.valid


def test_folds_need_facts_that_can_be_left_out() -> None:
    with pytest.raises(InputError, match="folds is 1: it must be at least 2"):
        fact_folds(graph_of(np.array([(0, 0, 1)]), 2, 1), 1, np.random.default_rng(0))
    with pytest.raises(InputError, match="none of the 2 training facts of g can be left out"):
        fact_folds(graph_of(np.array([(0, 0, 1), (2, 0, 3)]), 4, 1), 2, np.random.default_rng(0))
