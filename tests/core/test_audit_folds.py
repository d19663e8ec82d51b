"""Folds of the training facts: each fact is left out once, and every model knows every name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.config import AuditConfig
from kgcore.config.base import MODEL_ONLY
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.registries import STRATEGIES
from kgcore.wings.audit.plan import FEWEST_PLANTED, KEPT, AuditPlan, fact_folds, plan_audit


def graph_of(triples: np.ndarray, entities: int, predicates: int) -> KnowledgeGraph:
    split = Split(triples, np.ones(len(triples)))
    return KnowledgeGraph(
        "g", [f"e{i}" for i in range(entities)], [f"p{i}" for i in range(predicates)], split, split, split
    )


def names_in(triples: np.ndarray) -> tuple[set[int], set[int]]:
    return set(triples[:, [0, 2]].ravel().tolist()), set(triples[:, 1].tolist())


@settings(max_examples=60)
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
        rest = AuditPlan(graph, triples, fold).without_fold(number)
        assert names_in(rest.train.triples) == names_in(triples)
        assert rest.known.contains(triples).all()
        assert rest.entities == graph.entities
    uses = [np.bincount(values).tolist() for values in (triples[:, 1], np.unique(triples[:, [0, 2]], axis=0).ravel())]
    assert all(fold[i] == KEPT for i, p in enumerate(triples[:, 1]) if uses[0][p] == 1)


def test_only_facts_that_cannot_be_left_out_are_kept() -> None:
    triples = np.array([(0, 0, 1), (0, 0, 2), (1, 0, 2), (0, 0, 3), (4, 1, 4)])
    graph = graph_of(triples, 5, 2)
    for seed in range(20):
        fold = fact_folds(graph, 3, np.random.default_rng(seed))
        assert (fold == KEPT).tolist() == [False, False, False, True, True]


def test_the_folds_are_of_equal_size(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    fold = fact_folds(small_graph, 4, rng)
    assert np.bincount(fold).tolist() == [150] * 4
    assert fact_folds(small_graph, 4, np.random.default_rng(1)).tolist() != fold.tolist()


def test_a_model_is_trained_on_the_rows_of_the_other_folds(small_graph: KnowledgeGraph) -> None:
    plan = plan_audit(small_graph, AuditConfig(folds=3))
    rest = plan.without_fold(1)
    assert rest.name == "small-fold-2-of-3"
    np.testing.assert_array_equal(rest.train.triples, plan.triples[plan.fold != 1])
    np.testing.assert_array_equal(rest.other_facts, small_graph.train.triples[plan.fold[: plan.facts] == 1])
    assert not rest.known.contains(plan.triples[(plan.fold == 1) & plan.planted]).any()
    assert rest.valid is small_graph.valid


def test_planted_errors_are_corruptions_that_are_no_facts(small_graph: KnowledgeGraph) -> None:
    plan = plan_audit(small_graph, AuditConfig(planted=0.3, planted_strategy={"typed": 1.0}))
    planted = plan.triples[plan.planted]
    assert len(planted) == 180  # 0.3 x 600 facts
    assert len(np.unique(planted, axis=0)) == 180
    assert not small_graph.all_known.contains(planted).any()
    for column in (0, 2):  # typed: the predicate has this subject, and this object, in train
        assert {*map(tuple, planted[:, [1, column]])} <= {*map(tuple, small_graph.train.triples[:, [1, column]])}
    assert np.bincount(plan.fold[plan.planted]).tolist() == [36] * 5


def test_a_small_graph_gets_enough_planted_errors(small_graph: KnowledgeGraph) -> None:
    assert plan_audit(small_graph, AuditConfig(planted=0.001)).planted.sum() == 120 < FEWEST_PLANTED  # a fifth of 600


def test_the_same_seed_plans_the_same_audit(small_graph: KnowledgeGraph) -> None:
    one, again, other = (plan_audit(small_graph, AuditConfig(audit_seed=seed)) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.triples, again.triples)
    np.testing.assert_array_equal(one.fold, again.fold)
    assert one.triples.tolist() != other.triples.tolist()


def test_strategies_that_need_a_model_plant_no_errors() -> None:
    with pytest.raises(InputError, match="planted_strategy is 'nearest': this strategy draws with a trained model"):
        AuditConfig(planted_strategy={"nearest": 1.0})
    needs_model = {name for name in STRATEGIES.names() if STRATEGIES.get(name).by_model}
    assert needs_model == MODEL_ONLY


def test_folds_need_facts_that_can_be_left_out() -> None:
    with pytest.raises(InputError, match="folds is 1: it must be at least 2"):
        fact_folds(graph_of(np.array([(0, 0, 1)]), 2, 1), 1, np.random.default_rng(0))
    with pytest.raises(InputError, match="none of the 2 training facts of g can be left out"):
        fact_folds(graph_of(np.array([(0, 0, 1), (2, 0, 3)]), 4, 1), 2, np.random.default_rng(0))
