"""Bounds of combiners for tiles: around the log-odds of each pair, and lists that are equal to those of all pairs."""

import numpy as np
import pytest

from kgcore.answer.pairs import PairSearch
from kgcore.combiners import base
from kgcore.combiners.base import Combined, CombinedModel, Combiner, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.joined import Stack
from kgcore.config.base import PER
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features, Grid
from kgcore.registries import EVIDENCE
from tests.core.pair_lists import every_pair, found
from tests.core.tiles import ENTITIES, PREDICATES, named_graph, source_of, tile_of

GROUPS = tuple(EVIDENCE.names())


def fitted(source: Source, seed: int, combiner: Combiner) -> Combiner:
    """Fit a combiner to training facts and to as many random triples; the last predicate has no category."""
    rng, facts = np.random.default_rng(seed), source.triples[source.triples[:, 1] < PREDICATES - 1]
    corrupted = facts.copy()
    corrupted[:, 2] = rng.integers(ENTITIES, size=len(facts))
    triples = np.concatenate([facts, corrupted])
    evidence = Features.of(source, GROUPS).evidence(triples)
    labels = np.repeat([1.0, 0.0], len(facts))
    return combiner.fit(
        EvidenceSample(evidence.names, evidence.values, labels, np.ones(len(labels)), triples[:, 1]), rng
    )


def model_of(source: Source, combiner: Combiner, kind: str = "boosted_trees") -> CombinedModel:
    combined = Combined(kind, GROUPS, Features.of(source, GROUPS).names, "", combiner, kind, ("",) * len(source.others))
    return CombinedModel(combined, source.trained, source.graph, source.others)


@pytest.fixture(scope="module")
def source() -> Source:
    return source_of(named_graph(0))


@pytest.fixture(scope="module")
def trees(source: Source) -> Combiner:
    return fitted(source, 0, BoostedTrees(trees=30))


@pytest.mark.parametrize("leaves", [4, 16, 32])
@pytest.mark.parametrize("seed", range(PREDICATES))
def test_bounds_hold_the_log_odds_and_are_nearly_always_equal(source: Source, leaves: int, seed: int) -> None:
    model = model_of(source, fitted(source, seed, BoostedTrees(trees=20, leaves=leaves, fewest=2)))
    for shape in ((60, 90), (1, 4), (40, 1)):
        tile = tile_of(source, seed, shape)
        low, high = model.combined.bounds(Grid(model._features, tile))
        plain = ~tile.special
        scores = model.score(tile.at(plain))
        assert ((low[plain] <= scores) & (scores <= high[plain])).all()
        assert (low[plain] == high[plain]).mean() > 0.9
        assert (scores[low[plain] == high[plain]] == high[plain][low[plain] == high[plain]]).all()


@pytest.mark.parametrize("per", PER)
@pytest.mark.parametrize("top", [0, 3, 200])
def test_the_best_pairs_are_those_of_all_pairs(
    source: Source, trees: Combiner, per: str, top: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "OBJECTS_AT_ONCE", 17)
    monkeypatch.setattr(base, "PAIRS_AT_ONCE", 600)
    model = model_of(source, trees)
    everyone = np.random.default_rng(0).permutation(ENTITIES)
    known = source.graph.all_known if top == 3 else None
    search = PairSearch(everyone[:40], everyone[20:80], 1, top, per, -2.4, known, top == 3)
    expected = every_pair(model, search)
    assert found(model, search) == found(model, search, parts=3) == expected
    assert len(expected) >= top


def test_the_best_pairs_of_a_stack_are_those_of_all_pairs(source: Source, trees: Combiner) -> None:
    further = fitted(source, 1, BoostedTrees(trees=9))
    model = model_of(source, Stack(("boosted_trees",) * 2, (trees, further), (0.3, 0.7), -0.2), "stack")
    search = PairSearch(np.arange(30), np.arange(20, 90), 0, 50)
    assert found(model, search) == every_pair(model, search)


@pytest.mark.filterwarnings("ignore:overflow")  # LightGBM writes 1e300 for infinity
def test_codes_count_the_thresholds_below_a_value(trees: Combiner) -> None:
    assert isinstance(trees, BoostedTrees)
    rng, forest = np.random.default_rng(0), trees.forest_
    for feature, thresholds in enumerate(forest.thresholds):
        near = np.nextafter(thresholds.astype(np.float32), rng.choice([-np.inf, np.inf], len(thresholds)))
        values = np.concatenate([rng.normal(size=3000), thresholds, near, [np.nan, np.inf, -np.inf]]).astype(np.float32)
        below = (thresholds < values[:, None].astype(np.float64)).sum(axis=1)
        np.testing.assert_array_equal(
            forest.codes(feature, values), np.where(np.isnan(values), len(thresholds) + 1, below)
        )
