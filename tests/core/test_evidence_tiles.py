"""The evidence of tiles: for every registered group, equal to that of each pair, or around it."""

import numpy as np
import pytest

from kgcore.evidence.base import Feature, Tile
from kgcore.evidence.table import Features, Grid
from kgcore.registries import EVIDENCE
from tests.core.tiles import ENTITIES, named_graph, source_of, tile_of

BY_SCORES = {"score", "cohorts", "other_scores", "name_embeddings"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", EVIDENCE.names())
def test_the_features_of_a_tile_are_those_of_its_pairs(name: str, seed: int) -> None:
    source = source_of(named_graph(seed))
    group, tile = EVIDENCE.get(name).of(source), tile_of(source, seed, ((60, 90), (90, 7), (1, 50), (2, 1))[seed])
    grid = Grid(Features({name: group}, len(source.graph.entities)), tile)
    plain = ~tile.special
    values = group.values(tile.at(plain)).astype(np.float32)
    for number in range(len(group.names)):
        column = grid.column(number)
        assert (column.column.low is column.column.high) or name in BY_SCORES
        low, high = np.empty(tile.shape, np.float32), np.empty(tile.shape, np.float32)
        for filled, table in ((low, column.column.low), (high, column.column.high)):
            filled[:] = column.column.of_pairs(table)
            filled.ravel()[column.apart] = column.values
        unknown = np.isnan(values[:, number])
        np.testing.assert_array_equal(np.isnan(low[plain]), unknown)
        np.testing.assert_array_equal(np.isnan(high[plain]), unknown)
        assert ((low[plain] <= values[:, number]) | unknown).all(), group.names[number]
        assert ((values[:, number] <= high[plain]) | unknown).all(), group.names[number]


@pytest.mark.parametrize("name", sorted(set(EVIDENCE.names()) - {"paths", "other_scores"}))
def test_few_pairs_of_a_tile_are_computed_one_by_one(name: str) -> None:
    source = source_of(named_graph(0))
    tiled = EVIDENCE.get(name).of(source).tile(tile_of(source, 0))
    assert tiled.apart is None or tiled.apart.mean() < 0.9


def test_a_group_without_tiles_gives_the_values_of_each_pair() -> None:
    source = source_of(named_graph(0))

    class Sums(Feature):
        group, names = "graph", ("sum", "half")

        @classmethod
        def of(cls, source: object) -> "Sums":
            return cls()

        def values(self, triples: np.ndarray) -> np.ndarray:
            return np.stack([triples.sum(axis=1), triples[:, 0] / 2], axis=1)

    tile = tile_of(source, 0)
    grid = Grid(Features({"sums": Sums()}, len(source.graph.entities)), tile)
    expected = Sums().values(tile.at(~tile.special))
    for number in range(2):
        np.testing.assert_array_equal(grid.column(number).values, expected[:, number].astype(np.float32))


def test_facts_and_loops_are_special() -> None:
    source = source_of(named_graph(1))
    tile = tile_of(source, 1)
    triples = tile.at(np.ones(tile.shape, dtype=bool))
    special = source.facts.contains(triples) | (triples[:, 0] == triples[:, 2])
    np.testing.assert_array_equal(tile.special.ravel(), special)
    assert 0 < special.sum() < len(special)


@pytest.mark.parametrize("side", [0, 2])
def test_a_stranger_is_the_first_other_entity_without_the_fact(side: int) -> None:
    source = source_of(named_graph(1))
    everyone = np.arange(ENTITIES)
    loved = np.stack([np.zeros_like(everyone), np.zeros_like(everyone), everyone], axis=1)
    facts = source.graph.index(loved, loved[:, ::-1], source.triples)
    tile = Tile(everyone, 0, everyone, facts)
    strangers = tile._strangers(everyone, side)
    assert strangers[0] == 0  # it has the fact with all others
    for entity in range(1, ENTITIES):
        pairs = [(other, entity) if side == 0 else (entity, other) for other in range(ENTITIES)]
        held = facts.contains(np.array([(s, 0, o) for s, o in pairs])) | (everyone == entity)
        assert strangers[entity] == np.flatnonzero(~held)[0]
