"""What every corruption strategy keeps to."""

import numpy as np
import pytest

from kgcore.corruptions import SIDES, STRATEGIES
from kgcore.corruptions.base import OBJECT, SUBJECT, corrupt, corrupt_held_out
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph


@pytest.mark.parametrize("name", STRATEGIES.names())
@pytest.mark.parametrize("sides", SIDES)
def test_exactly_one_side_changes_and_never_the_predicate(small_graph, rng, name: str, sides: str) -> None:
    positives = small_graph.valid.positives
    made = corrupt(positives, 5, STRATEGIES.get(name)(small_graph), rng, sides)
    changed = made.triples != positives[made.source]
    assert len(made.triples) == 5 * len(positives)
    assert not changed[:, 1].any()
    assert (changed.sum(axis=1) == 1).all()
    assert made.triples.min() >= 0
    assert made.triples[:, [0, 2]].max() < len(small_graph.entities)
    share = changed[:, 0].mean()
    assert share == {"subject": 1, "object": 0}.get(sides, pytest.approx(0.5, abs=0.1))


@pytest.mark.parametrize("name", ["uniform", "kbgan"])  # a generator that has learnt nothing is uniform
def test_uniform_reaches_every_other_entity_alike(small_graph, rng: np.random.Generator, name: str) -> None:
    uniform = STRATEGIES.get(name)(small_graph)
    triples = np.tile([[0, 0, 39], [17, 1, 5]], (4000, 1))
    for column in (SUBJECT, OBJECT):
        for true in np.unique(triples[:, column]):
            drawn = uniform.draw(triples[triples[:, column] == true], column, 5, rng)
            counts = np.bincount(drawn.ravel(), minlength=40)
            assert counts[true] == 0
            expected = drawn.size / 39
            others = np.delete(counts, true)
            assert ((others - expected) ** 2 / expected).sum() < 80  # chi-square with 38 degrees, p < 1e-4 above


def test_filtering_drops_known_facts_and_nothing_else(small_graph: KnowledgeGraph) -> None:
    positives, uniform = small_graph.valid.positives, STRATEGIES.get("uniform")(small_graph)
    free = corrupt(positives, 20, uniform, np.random.default_rng(1))
    filtered = corrupt(positives, 20, uniform, np.random.default_rng(1), known=small_graph.known)
    known = small_graph.known.contains(free.triples)
    assert known.any()
    assert filtered.dropped == known.sum()
    np.testing.assert_array_equal(filtered.triples, free.triples[~known])
    np.testing.assert_array_equal(filtered.source, free.source[~known])


def test_what_is_fitted_is_never_filtered_by_test(small_graph: KnowledgeGraph) -> None:
    uniform = STRATEGIES.get("uniform")(small_graph)
    made = corrupt_held_out(small_graph, 200, uniform, np.random.default_rng(0), "both", filtered=True)
    assert small_graph.all_known.contains(made["valid"].triples).any()
    assert not small_graph.known.contains(made["valid"].triples).any()
    assert "test" not in made  # its negatives are labelled


def test_bad_arguments_are_refused(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    uniform = STRATEGIES.get("uniform")(small_graph)
    with pytest.raises(InputError, match="eta is 0"):
        corrupt(small_graph.valid.positives, 0, uniform, rng)
    with pytest.raises(InputError, match="sides is 'left'"):
        corrupt(small_graph.valid.positives, 1, uniform, rng, sides="left")
