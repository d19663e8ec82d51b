"""Comparisons of Gaussian distributions: the loops, tiles and ranks, compared with the plain formula."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Independent, Normal, kl_divergence

from kgcore.data.graph import TripleIndex
from kgcore.embed.models import base
from kgcore.embed.models.base import Comparator, Embeddings
from kgcore.embed.models.kg2e import Divergence, Likelihood, moments
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.ranking import filtered_ranks
from kgcore.wings.fast_cpu import scores as tiles
from kgcore.wings.fast_cpu.gaussians import divergence_tile
from tests.core.rank_loop import rank_by_loop

BOTH = pytest.mark.parametrize("comparator", [Divergence(), Likelihood()], ids=["divergence", "likelihood"])


def rows(seed: int, *shape: int) -> Tensor:
    """Return embeddings with variances from 0.05 to about 5."""
    return 2 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def queries(seed: int, *shape: int) -> Tensor:
    """Return queries (..., 3k) from shape (..., k)."""
    (mean, variance), (_, weight) = moments(rows(seed, *shape[:-1], 2 * shape[-1])), moments(rows(seed + 1, *shape, 2))
    return torch.cat([mean, variance, weight[..., 0]], -1)


def plain(comparator: Comparator, queries: Tensor, entities: Tensor) -> Tensor:
    """Score all pairs in float64, one term after the other."""
    return comparator.pairs(queries.double().unsqueeze(-2), entities.double().unsqueeze(-3))


def test_the_divergence_is_that_of_pytorch() -> None:
    q, e = queries(0, 5, 7).double(), rows(2, 5, 14).double()
    (mean, variance, weight), (other, own) = q.chunk(3, -1), moments(e)
    first = Independent(Normal(mean - other, (variance + own).sqrt()), 1)
    second = Independent(Normal(torch.zeros_like(mean), weight.sqrt()), 1)
    torch.testing.assert_close(Divergence().pairs(q, e), -kl_divergence(first, second))


def test_the_likelihood_is_the_density_of_a_sum() -> None:
    q, e = queries(0, 5, 7).double(), rows(2, 5, 14).double()
    (mean, variance, weight), (other, own) = q.chunk(3, -1), moments(e)
    density = Normal(torch.zeros_like(mean), (variance + own + weight).sqrt()).log_prob(mean - other)
    torch.testing.assert_close(Likelihood().pairs(q, e), density.sum(-1))


def tiling_of(width: int) -> tiles.Tiling:
    tiling = tiles.tiling_of("divergence", Divergence().pairs, torch.empty(1, width))
    assert tiling is not None
    return tiling


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("count", "entities"), [(1, 1), (3, 7), (300, tiles.TILE_ENTITIES + 5)])
def test_scores_in_tiles(monkeypatch: pytest.MonkeyPatch, threads: int, count: int, entities: int) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    q, e = queries(1, count, 6), rows(3, entities, 12)
    with torch.inference_mode():
        found = tiles.by_tiles(tiling_of(12), q, e)
    torch.testing.assert_close(found, plain(Divergence(), q, e).float(), rtol=1e-5, atol=1e-4)


@BOTH
def test_scores_without_tiles(monkeypatch: pytest.MonkeyPatch, comparator: Comparator) -> None:
    monkeypatch.setattr(base, "LARGEST_ON_CPU", 50)
    q, e = queries(1, 4, 6), rows(3, 9, 12)
    with torch.inference_mode():
        found = comparator.outer(q, e)
    torch.testing.assert_close(found, plain(comparator, q, e).float())


@given(seed=st.integers(0, 99), k=st.integers(1, 9), count=st.integers(1, 40))
def test_a_column_has_the_same_bits_wherever_it_stands(seed: int, k: int, count: int) -> None:
    columns = np.repeat(torch.cat(moments(rows(seed, 1, 2 * k)), -1).numpy().T, count, 1)
    found = np.empty((3, count), np.float32)
    divergence_tile(queries(seed, 3, k).numpy(), np.ascontiguousarray(columns), found)
    assert (found == found[:, :1]).all()


@given(low=st.floats(-8, 0), high=st.floats(0, 8))
def test_products_of_extreme_ratios_neither_overflow_nor_vanish(low: float, high: float) -> None:
    """Seven ratios in a row of 10^-8 or of 10^8 would leave the range of float32 if they were only multiplied."""
    weight = 10.0 ** torch.tensor([[low] * 10 + [high] * 10])
    q = torch.cat([torch.zeros(1, 20), torch.full((1, 20), 0.5), weight], -1)
    found = np.empty((1, 1), np.float32)
    divergence_tile(q.numpy(), np.r_[np.zeros(20), np.full(20, 0.5)].astype(np.float32)[:, None], found)
    expected = ((1 / weight + weight.log() - 1).sum() / 2).item()
    assert found[0, 0] == pytest.approx(expected, rel=1e-5, abs=1e-4)


@given(seed=st.integers(0, 99), k=st.integers(1, 120), size=st.floats(0.03, 30))
def test_errors_of_tiles_are_within_the_bounds_of_the_tiling(seed: int, k: int, size: float) -> None:
    (mean, variance), (_, weight) = moments(size * rows(seed, 5, 2 * k)), moments(size * rows(seed + 1, 5, 2 * k))
    q, e = torch.cat([mean, variance, weight], -1), size * rows(seed + 2, 24, 2 * k)
    tiling = tiling_of(2 * k)
    assert tiling.settled is not None
    found = tiling.scores(q, tiling.arranged(e))[:, : len(e)]
    settled = tiling.settled(q.repeat_interleave(len(e), 0), e.repeat(len(q), 1)).view_as(found)
    assert ((found - settled).abs() <= settled.abs() * tiling.times + tiling.plus).all()


def noisy(exact: Callable[..., None]) -> Callable[..., None]:
    """Return the kernel with an error of a few bits in every result."""
    rng = np.random.default_rng(5)

    def kernel(rows: np.ndarray, columns: np.ndarray, found: np.ndarray) -> None:
        exact(rows, columns, found)
        found *= 1 + (rng.random(found.shape, dtype=np.float32) - 0.5) * np.float32(2**-19)

    return kernel


@pytest.mark.parametrize("likelihood", [False, True])
def test_ranks_are_those_of_the_score(monkeypatch: pytest.MonkeyPatch, likelihood: bool) -> None:
    """Entities 0 to 9 are the same, so that scores tie. Errors of tiles do not change ranks."""
    monkeypatch.setattr(tiles, "divergence_tile", noisy(divergence_tile))
    monkeypatch.setattr(tiles, "TILE_ENTITIES", 24)
    entities, predicates, rng = rows(1, 40, 8), rows(2, 3, 8), np.random.default_rng(1)
    entities[:10] = entities[0]
    triples = np.stack([rng.integers(0, n, 20) for n in (40, 3, 40)], 1)
    facts = set(map(tuple, np.concatenate([triples, np.stack([rng.integers(0, n, 300) for n in (40, 3, 40)], 1)])))
    trained = TrainedModel("kg2e", 4, Embeddings(entities, predicates), {"likelihood": likelihood})
    expected = [[rank_by_loop(trained, triple, column, facts, 40) for column in (0, 2)] for triple in triples]
    known = TripleIndex(np.array(sorted(facts)), 40, 3)
    np.testing.assert_array_equal(filtered_ranks(trained, triples, known), expected)
