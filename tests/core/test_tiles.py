"""Distances in tiles and ranks by tiles, compared with plain formulas and with one score after the other."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.data.graph import TripleIndex
from kgcore.embed.models import base as comparators
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.rotate import ModulusDistance
from kgcore.embed.models.toruse import TorusDistance
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.ranking import filtered_ranks
from kgcore.wings.fast_cpu import scores as tiles
from kgcore.wings.fast_cpu.scores import TiledQueries
from tests.core.rank_loop import rank_by_loop


def circle(difference: np.ndarray) -> np.ndarray:
    return 2 * np.abs(difference - np.round(difference))


PLAIN: dict[str, tuple[comparators.Distance, Callable[[np.ndarray], np.ndarray]]] = {
    "l1": (comparators.NegativeDistance(1), lambda d: np.abs(d).sum(-1)),
    "l2": (comparators.NegativeDistance(2), lambda d: np.sqrt((d**2).sum(-1))),
    "modulus": (ModulusDistance(), lambda d: np.abs(d[..., :3] + 1j * d[..., 3:]).sum(-1)),
    "torus1": (TorusDistance(1), lambda d: circle(d).sum(-1)),
    "torus2": (TorusDistance(2), lambda d: (circle(d) ** 2).sum(-1)),
}


def rows(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + shape[0]))


def tiling_of(comparator: comparators.Distance, width: int) -> tiles.Tiling:
    tiling = tiles.tiling_of(comparator.name, comparator.pairs, torch.empty(1, width))
    assert tiling is not None
    return tiling


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("queries", "entities"), [(1, 1), (3, 7), (300, tiles.TILE_ENTITIES + 5)])
def test_distances_in_tiles_equal_the_plain_formula(
    monkeypatch: pytest.MonkeyPatch, name: str, threads: int, queries: int, entities: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    comparator, plain = PLAIN[name]
    q, e = rows(queries, 6), rows(entities, 6)
    with torch.inference_mode():
        tiled = tiles.by_tiles(tiling_of(comparator, 6), q, e)
        torch.testing.assert_close(tiled, comparator.outer(q, e), rtol=1e-5, atol=1e-5)
    expected = -plain(q.double().numpy()[:, None] - e.double().numpy())
    np.testing.assert_allclose(tiled.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_other_numbers_and_comparisons_have_no_tiles() -> None:
    pairs = comparators.DotProduct().pairs
    assert tiles.tiling_of("", pairs, torch.empty(1, 2)) is None
    assert tiles.tiling_of("l1", pairs, torch.empty(1, 2, dtype=torch.float64)) is None
    assert tiles.tiling_of("l1", pairs, torch.empty(1, 2, device="meta")) is None


@pytest.mark.parametrize("name", PLAIN)
@given(seed=st.integers(0, 99), width=st.integers(1, 6), count=st.integers(1, 40))
def test_a_column_has_the_same_bits_wherever_it_stands(name: str, seed: int, width: int, count: int) -> None:
    kernel = tiles.TILE_LOOPS[name]
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(3, 2 * width)).astype(np.float32)
    columns = np.repeat(rng.normal(size=(2 * width, 1)).astype(np.float32), count, 1)
    found = np.empty((3, count), np.float32)
    kernel(queries, columns, found)
    assert (found == found[:, :1]).all()


@pytest.mark.parametrize("name", PLAIN)
def test_without_tiles_all_distances_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    comparator, plain = PLAIN[name]
    monkeypatch.setattr(comparators, "LARGEST_ON_CPU", 50)
    q, e = rows(4, 6), rows(9, 6)
    with torch.inference_mode():
        scores = comparator.outer(q, e)
    np.testing.assert_allclose(scores, -plain(q.double().numpy()[:, None] - e.double().numpy()), rtol=1e-5, atol=1e-5)


def random_case(name: str, options: dict[str, float | bool], width: int) -> tuple[TrainedModel, np.ndarray, set]:
    """Return a model of 40 entities, 20 triples, and the facts. Entities 0 to 9 are the same, so that scores tie."""
    entities, predicates = rows(40, width), rows(3, 4)
    entities[:10] = entities[0]
    rng = np.random.default_rng(1)
    triples = np.stack([rng.integers(0, n, 20) for n in (40, 3, 40)], 1)
    facts = set(map(tuple, np.concatenate([triples, np.stack([rng.integers(0, n, 300) for n in (40, 3, 40)], 1)])))
    return TrainedModel(name, 4, Embeddings(entities, predicates), options), triples, facts


@pytest.mark.parametrize(
    ("name", "options", "width"), [("rotate", {}, 8), ("toruse", {}, 4), ("toruse", {"norm": 2}, 4)]
)
@pytest.mark.parametrize("inverse", [False, True])
def test_errors_of_tiles_do_not_change_ranks(
    monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, float], width: int, inverse: bool
) -> None:
    """The ranks are those of `score`, though every score of a tile has an error of a few bits."""
    trained, triples, facts = random_case(name, options, width)
    if inverse:
        predicates = torch.cat([trained.embeddings.predicates, rows(3, 4) / 3], 1)
        trained = replace(trained, inverse=True, embeddings=replace(trained.embeddings, predicates=predicates))
    exact, noise = tiles._by_kernel, torch.Generator().manual_seed(5)

    def noisy(*args: object) -> torch.Tensor:
        found = exact(*args)
        return found * (1 + (torch.rand(found.shape, generator=noise) - 0.5) * 2**-19)

    monkeypatch.setattr(tiles, "_by_kernel", noisy)
    monkeypatch.setattr(tiles, "TILE_ENTITIES", 24)
    known = TripleIndex(np.array(sorted(facts)), 40, 3)
    expected = [[rank_by_loop(trained, triple, column, facts, 40) for column in (0, 2)] for triple in triples]
    np.testing.assert_array_equal(filtered_ranks(trained, triples, known), expected)


@pytest.mark.parametrize("name", ["transe", "distmult"])
def test_the_rank_of_a_triple_does_not_depend_on_the_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, triples, facts = random_case(name, {}, 4)
    known = TripleIndex(np.array(sorted(facts)), 40, 3)
    alone = [filtered_ranks(trained, triple[None], known)[0] for triple in triples]
    np.testing.assert_array_equal(filtered_ranks(trained, triples, known), alone)
    monkeypatch.setattr("kgcore.embed.ranking.TILE_QUERIES", 3)
    np.testing.assert_array_equal(filtered_ranks(trained, triples, known), alone)


def test_tiles_are_counted_again_if_their_bits_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    trained, triples, facts = random_case("distmult", {}, 4)
    known = TripleIndex(np.array(sorted(facts)), 40, 3)
    expected = filtered_ranks(trained, triples, known)
    plain, calls = TiledQueries.of_targets, []
    monkeypatch.setattr(TiledQueries, "of_targets", lambda self, e: calls.append(1) or plain(self, e) + 1)
    np.testing.assert_array_equal(filtered_ranks(trained, triples, known), expected)
    assert calls


def test_scores_that_are_no_numbers_are_neither_higher_nor_equal() -> None:
    trained = random_case("distmult", {}, 4)[0]
    trained.embeddings.entities[20:] = torch.nan
    nothing = TripleIndex(np.zeros((0, 3)), 40, 3)
    triple = np.array([[12, 0, 13]])
    kept = replace(trained, embeddings=replace(trained.embeddings, entities=trained.embeddings.entities[:20]))
    np.testing.assert_array_equal(filtered_ranks(trained, triple, nothing), filtered_ranks(kept, triple, nothing))


@given(st.integers(1, 255), st.floats(0, 1), st.integers(0, 2**31))
def test_counts_of_a_mask(words: int, share: float, seed: int) -> None:
    mask = torch.rand(3, 8 * words, generator=torch.Generator().manual_seed(seed)) <= share
    assert tiles._count(mask).tolist() == mask.sum(1).tolist()
