"""What every corruption strategy keeps to."""

import numpy as np
import pytest

from kgcore.corruptions import SIDES, STRATEGIES
from kgcore.corruptions.base import OBJECT, SUBJECT, Mixture, corrupt, corrupt_held_out
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split


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


def test_typed_draws_every_other_entity_of_the_range_alike(small_graph: KnowledgeGraph, rng) -> None:
    typed, train = STRATEGIES.get("typed")(small_graph), small_graph.train.triples
    for column in (SUBJECT, OBJECT):
        for triple in train[:5]:
            seen = np.unique(train[train[:, 1] == triple[1], column])
            others = np.setdiff1d(seen, triple[column])
            drawn = typed.draw(np.tile(triple, (2000, 1)), column, 5, rng)
            counts = np.bincount(drawn.ravel(), minlength=40)
            assert counts[others].sum() == drawn.size
            expected = drawn.size / len(others)
            assert ((counts[others] - expected) ** 2 / expected).sum() < 90


def test_typed_of_a_range_of_one_is_uniform(rng: np.random.Generator) -> None:
    names = [f"e{i}" for i in range(6)]
    split = Split(np.array([[0, 0, 5], [1, 0, 5], [2, 1, 3], [2, 1, 4]]), np.ones(4))
    typed = STRATEGIES.get("typed")(KnowledgeGraph("lone", names, ["p", "q"], split, split, split))
    drawn = typed.draw(np.tile([[0, 0, 5]], (500, 1)), OBJECT, 4, rng)
    assert set(np.unique(drawn)) == {0, 1, 2, 3, 4}
    unseen = typed.draw(np.array([[2, 1, 0]]), OBJECT, 50, rng)  # an object that training has not there
    assert set(np.unique(unseen)) == {3, 4}


@pytest.mark.parametrize("count", [0, 1, 4, 20, 7])
def test_a_mixture_keeps_its_shares(small_graph: KnowledgeGraph, rng: np.random.Generator, count: int) -> None:
    mixture = Mixture(small_graph, {"typed": 1, "uniform": 3})
    assert mixture.by_predicate
    drawn = mixture.draw(small_graph.train.triples, OBJECT, count, rng)
    assert drawn.shape == (len(small_graph.train), count)
    drawn_by_typed = [mixture._counts(count, rng)[0] for _ in range(2000)]
    assert np.mean(drawn_by_typed) == pytest.approx(count / 4, abs=0.05)
    assert set(drawn_by_typed) <= {int(np.floor(count / 4)), int(np.ceil(count / 4))}
    assert (drawn != small_graph.train.triples[:, OBJECT, None]).all()
