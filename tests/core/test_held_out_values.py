"""Values of functional predicates that valid or test has speak against other values, and betray no validation fact."""

import numpy as np
import pytest

from kgcore.answer.domains import Domains
from kgcore.answer.population.draw import DrawSize
from kgcore.answer.population.population import Population
from kgcore.answer.population.survey import survey
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.evidence.base import Source, Tile
from kgcore.evidence.held_out import HeldOut
from kgcore.evidence.table import Features, Grid
from tests.core.calibrated_models import trained_on

PEOPLE, TOWNS = 600, 2
Rows = list[tuple[int, int, int]]


def graph(train: Rows, valid: Rows, test: Rows) -> KnowledgeGraph:
    parts = [Split(np.array(rows, dtype=np.int64).reshape(-1, 3), np.ones(len(rows))) for rows in (train, valid, test)]
    return KnowledgeGraph("towns", [f"e{n}" for n in range(6)], ["born_in", "likes"], *parts)


def held_out(known: KnowledgeGraph) -> HeldOut:
    return HeldOut.of(Source(known, trained_on(known)))


def values(known: KnowledgeGraph, *triples: tuple[int, int, int]) -> list[list[float]]:
    return held_out(known).values(np.array(triples)).tolist()


def test_a_value_of_valid_or_test_counts_for_other_triples_only() -> None:
    """Each subject of p0 has one object, but 4 and 5 have several subjects. p1 is functional on neither side."""
    known = graph([(0, 0, 4), (1, 0, 5), (0, 1, 1), (0, 1, 2), (3, 1, 1)], [(2, 0, 4), (3, 1, 2)], [(3, 0, 5)])
    assert values(known, (2, 0, 5), (3, 0, 4), (0, 0, 5)) == [[1, 0], [1, 0], [0, 0]]
    assert values(known, (2, 0, 4), (3, 0, 5)) == [[0, 0], [0, 0]]  # the held-out facts themselves
    assert values(known, (3, 1, 4), (3, 1, 2)) == [[0, 0], [0, 0]]


def test_a_value_counts_on_the_side_of_the_object_if_the_predicate_is_inverse_functional() -> None:
    known = graph([(0, 0, 1), (0, 0, 2), (3, 1, 1)], [(0, 0, 4)], [])
    assert values(known, (3, 0, 4), (3, 0, 5), (0, 0, 4), (0, 0, 5)) == [[0, 1], [0, 0], [0, 0], [0, 0]]


def people(seed: int) -> KnowledgeGraph:
    """Return people with friends, most of them in their town, and with one birthplace each.

    Half of the birthplaces are in train, a fifth in valid and in test, and a tenth is missing.
    """
    rng = np.random.default_rng(seed)
    town = rng.integers(TOWNS, size=PEOPLE)
    others = [np.flatnonzero(town == n) for n in (*town, *(1 - town))]
    pairs = np.array([(n % PEOPLE, rng.choice(others[n])) for n in [*range(PEOPLE)] * 3 + [*range(PEOPLE, 2 * PEOPLE)]])
    friends = np.unique(np.insert(pairs[pairs[:, 0] != pairs[:, 1]], 1, 1, axis=1), axis=0)
    born = np.stack([np.arange(PEOPLE), np.zeros(PEOPLE, dtype=np.int64), PEOPLE + town], axis=1)
    _, valid, test, train = np.split(rng.permutation(born), [PEOPLE // 10, 3 * PEOPLE // 10, PEOPLE // 2])
    names = [f"n{n}" for n in range(PEOPLE)] + [f"town {n}" for n in range(TOWNS)], ["born_in", "friend"]
    splits = (Split(rows, np.ones(len(rows))) for rows in (np.concatenate([train, friends]), valid, test))
    return KnowledgeGraph("people", *names, *splits)


@pytest.mark.parametrize("seed", range(3))
def test_who_has_a_birthplace_in_valid_or_test_needs_no_second_one(seed: int) -> None:
    known = people(seed)
    population = Population.of_predicates(Domains(known, is_typed=True), [0])
    made = survey(population, [trained_on(known)], DrawSize(), np.random.default_rng(seed))
    has_birthplace = np.isin(made.drawn.triples[:, 0], known.all_known.triples[known.all_known.triples[:, 1] == 0, 0])
    best = np.argsort(-made.log_odds)[: PEOPLE // 10]
    assert not has_birthplace[best].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_tile_has_the_values_of_its_pairs(seed: int) -> None:
    known, rng = people(seed), np.random.default_rng(seed)
    group = held_out(known)
    subjects, objects = rng.permutation(PEOPLE)[:50], PEOPLE + rng.permutation(TOWNS)
    tile = Tile(subjects, 0, objects, known.index(known.train.positives))
    expected = group.values(tile.at(np.ones(tile.shape, dtype=bool))).reshape(*tile.shape, 2)
    grid = Grid(Features({"held_out": group}, len(known.entities)), tile)
    for number in range(2):
        column = grid.column(number)
        found = np.array(np.broadcast_to(column.column.of_pairs(column.column.low), tile.shape))
        found.ravel()[column.apart] = column.values
        np.testing.assert_array_equal(found[~tile.special], expected[..., number][~tile.special])
    assert 0 < expected[..., 0].mean() < 1
    assert not expected[..., 1].any()
