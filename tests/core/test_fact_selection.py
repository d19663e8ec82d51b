"""Lists with few false facts: the share of false ones where the truth is known, and which queries are candidates."""

import numpy as np
import pytest

from kgcore.answer.domains import Domains
from kgcore.answer.selection import Asked, FactSearch, needed_share, query_side
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.models.scorer import Scorer
from tests.core.scored_graphs import functional_graph

BORN_IN = [Asked(0, OBJECT, None)]


def search(model: Scorer, graph: KnowledgeGraph) -> FactSearch:
    return FactSearch(model, graph, Domains(graph), 0.1, only_promising=False)


def test_the_mean_share_of_false_facts_is_controlled(rng: np.random.Generator) -> None:
    shares, lengths = [], []
    for _ in range(100):
        model, graph, truth = functional_graph(rng, 400, 15, boost=5.0)
        found = search(model, graph).candidates(BORN_IN, rng)
        triples = found.triples[found.selected(0.1)]
        false = truth[triples[:, 0]] != triples[:, 2]
        shares.append(false.mean() if len(false) else 0.0)
        lengths.append(len(false))
    assert np.mean(shares) <= 0.1 + 2 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(lengths) > 20  # of about 58 missing facts
    assert np.mean(np.array(lengths) > 0) > 0.9


def test_without_signal_a_list_is_rare(rng: np.random.Generator) -> None:
    lists = 0
    for _ in range(40):
        model, graph, _ = functional_graph(rng, 400, 15, boost=0.0)
        lists += search(model, graph).candidates(BORN_IN, rng).selected(0.1).any()
    assert lists <= 10  # each with a probability of at most 0.1


def test_known_facts_and_queries_of_train_and_validation_are_no_candidates(rng: np.random.Generator) -> None:
    model, graph, _ = functional_graph(rng, 400, 15, boost=3.0)
    found = search(model, graph).candidates(BORN_IN, rng)
    assert not graph.all_known.contains(found.triples).any()
    in_use = np.r_[graph.train.triples[graph.train.triples[:, 1] == 0, 0], graph.valid.triples[:, 0]]
    assert not np.isin(found.triples[:, 0], in_use).any()
    assert found.skipped == (graph.train.triples[:, 1] == 0).sum()
    assert len(found.triples) == 400 - len(in_use)


def test_a_single_query_has_the_p_value_that_it_has_among_all(rng: np.random.Generator) -> None:
    model, graph, _ = functional_graph(rng, 400, 15, boost=3.0)
    every = search(model, graph).candidates(BORN_IN, rng)
    one = search(model, graph).candidates([Asked(0, OBJECT, int(every.triples[7, 0]))], rng)
    np.testing.assert_array_equal(one.triples, every.triples[7:8])
    np.testing.assert_array_equal(one.p_values, every.p_values[7:8])


def test_if_most_queries_have_no_known_answer_none_is_a_candidate(rng: np.random.Generator) -> None:
    model, graph, _ = functional_graph(rng, 400, 15, boost=3.0)
    few = Split(graph.valid.triples[:30], np.ones(30))
    less = KnowledgeGraph(graph.name, graph.entities, graph.predicates, graph.train, few, graph.test)
    found = search(model, less).candidates(BORN_IN, rng)
    assert not len(found.triples)
    assert found.skipped == 400 - 30


def test_queries_ask_for_the_side_with_fewer_entities(rng: np.random.Generator) -> None:
    _, graph, _ = functional_graph(rng, 400, 15, boost=3.0)
    assert query_side(graph, 0) == OBJECT
    turned = graph.train.triples[:, ::-1]
    mirrored = KnowledgeGraph(
        "m", graph.entities, graph.predicates, Split(turned, graph.train.labels), *[graph.valid] * 2
    )
    assert query_side(mirrored, 0) == SUBJECT


@pytest.mark.parametrize(("p_values", "needed"), [([0.01] * 10, 0.1), ([0.01, 0.5], 0.2), ([1.0, 1.0], 10.0)])
def test_the_needed_share_by_hand(p_values: list[float], needed: float) -> None:
    assert needed_share(np.array(p_values), 0.1) == pytest.approx(needed)
