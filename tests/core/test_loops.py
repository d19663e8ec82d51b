"""The loops of training, compared with plain PyTorch and with automatic differentiation."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kgcore.embed.losses.base import NO_CORRUPTION
from kgcore.embed.models.base import Comparator, DotProduct, NegativeDistance
from kgcore.embed.models.kg2e import Divergence, moments
from kgcore.embed.models.rotate import ModulusDistance
from kgcore.embed.optimisers.base import RowAdagrad, RowAdam
from kgcore.loops.compiled import Array, fits_cpu_loops
from kgcore.loops.compiled import part as loop
from kgcore.registries import LOSSES, MODELS
from kgcore.registry import build
from kgcore.wings.fast_cpu import gaussians, losses, steps
from kgcore.wings.fast_cpu.comparisons import Numbers, query_gradients, row_scores
from kgcore.wings.fast_cpu.scores import fast_scores
from kgcore.wings.fast_cpu.training import COMPARISONS, CONSTANTS, NOTHING, UPDATES


@pytest.mark.parametrize(("name", "optimiser"), [("adam", RowAdam), ("adagrad", RowAdagrad)])
@given(seed=st.integers(0, 99), rows=st.integers(1, 9), width=st.integers(1, 40), steps=st.integers(1, 4))
def test_rows_are_updated_as_plain_pytorch_does(
    name: str, optimiser: type, seed: int, rows: int, width: int, steps: int
) -> None:
    rng = np.random.default_rng(seed)
    start = torch.from_numpy(rng.normal(size=(9, width)).astype(np.float32))
    fast, plain = optimiser(start.clone()), optimiser(start.clone())
    for step in range(1, steps + 1):
        numbers = np.sort(rng.choice(9, rows, replace=False))
        gradient = rng.normal(size=(rows, width)).astype(np.float32)
        uses = (0, numbers, np.arange(rows + 1), np.arange(rows), gradient, *NOTHING, fast.table.numpy())
        UPDATES[name](fast, uses, step, 0.1)(0, rows)
        plain.step(torch.from_numpy(numbers), torch.from_numpy(gradient), step, 0.1)
    for part in ("table", *optimiser.STATE):
        torch.testing.assert_close(getattr(fast, part), getattr(plain, part), rtol=1e-5, atol=1e-6)


def test_adam_is_that_of_pytorch_where_every_row_has_a_gradient() -> None:
    start = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))
    ours, parameter = RowAdam(start.clone()), torch.nn.Parameter(start.clone())
    adam = torch.optim.Adam([parameter], lr=0.05)
    for step in range(1, 20):
        gradient = torch.randn(7, 5, generator=torch.Generator().manual_seed(step))
        ours.step(torch.arange(7), gradient, step, 0.05)
        parameter.grad = gradient
        adam.step()
    torch.testing.assert_close(ours.table, parameter.detach(), rtol=1e-4, atol=1e-5)


def test_adam_updates_tables_of_more_dimensions_and_of_float64() -> None:
    for start in (torch.ones(4, 2, 3), torch.ones(4, 2, dtype=torch.float64)):
        adam = RowAdam(start.clone())
        adam.step(torch.tensor([1, 3]), torch.ones_like(start[:2]), 1, 0.1)
        torch.testing.assert_close(adam.table[1], torch.full_like(start[1], 0.9))
        torch.testing.assert_close(adam.table[0], start[0])


COMPARATORS = [DotProduct(), NegativeDistance(1), NegativeDistance(2), ModulusDistance()]


@loop
def compare_chunk(kind: int, q: Array, e: Array, g: Array, scores: Array, of_q: Array, of_e: Array) -> None:
    """Fill the scores of a chunk and, from the gradient g of the scores, those of queries and candidates."""
    steps._compare(kind, q, e, scores)
    steps._differentiate(kind, q, e, scores, g, of_q, of_e)


@pytest.mark.parametrize("comparator", COMPARATORS)
@pytest.mark.parametrize("sizes", [(5, 4, 8), (1, 1, 2), (7, 3, 34)])
def test_queries_are_compared_with_the_candidates_of_their_chunk(
    comparator: Comparator, sizes: tuple[int, int, int]
) -> None:
    count, others, width = sizes
    rng = np.random.default_rng(3)
    queries, entities = (
        torch.from_numpy(rng.integers(-4, 5, (rows, width)).astype(np.float32) / 2) for rows in (count, others)
    )  # some differences are 0
    entities[0] = queries[0] + 1e-3 * torch.arange(1, 1 + width)  # a pair whose distance is small
    weights = torch.from_numpy(rng.normal(size=(count, others)).astype(np.float32))
    scores, of_queries, of_entities = (torch.empty(shape) for shape in (weights.shape, queries.shape, entities.shape))
    given = [part[None].numpy() for part in (queries, entities, weights, scores, of_queries, of_entities)]
    compare_chunk(COMPARISONS[comparator.name], *given)
    plain = of_gradients(comparator.outer, weights.double(), queries.double(), entities.double())
    for ours, theirs in zip((scores, of_queries, of_entities), plain, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("comparator", COMPARATORS)
@pytest.mark.parametrize(("count", "size"), [(300, 3), (20, 40), (1, 1)])
def test_rows_are_compared_as_their_copies(comparator: Comparator, count: int, size: int) -> None:
    rng = np.random.default_rng(1)
    table = torch.from_numpy(rng.integers(-4, 5, size=(30, 34)).astype(np.float32) / 2)
    queries = torch.from_numpy(rng.integers(-4, 5, size=(count, 34)).astype(np.float32) / 2)
    ids, weights = rng.integers(30, size=(count, size)), rng.normal(size=(count, size)).astype(np.float32)
    kind, scores, of_queries = COMPARISONS[comparator.name], np.empty_like(weights), torch.empty(count, 34)
    row_scores(kind, queries.numpy(), table.numpy(), ids, scores, 0, count)
    query_gradients(kind, queries.numpy(), table.numpy(), ids, scores, weights, of_queries.numpy(), 0, count)
    copies = table[torch.from_numpy(ids)]
    plain, of_plain = of_gradients(
        lambda q: comparator.outer(q[:, None], copies)[:, 0], torch.from_numpy(weights), queries
    )
    torch.testing.assert_close(torch.from_numpy(scores), plain, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(of_queries, of_plain, rtol=1e-5, atol=1e-5)


@loop
def compare_gaussians(q: Array, e: Array, g: Array, scores: Array, of_q: Array, of_e: Array) -> None:
    """Fill the divergences of queries and entities and, from the gradient g of the scores, those of both."""
    gaussians._divergences(q, e, scores)
    gaussians._divergence_gradients(q, e, g, of_q, of_e)


@loop
def moments_of(table: Array, ids: Numbers, rows: Array, slopes: Array, gradient: Array) -> None:
    gaussians._take_moments(table, ids, rows, slopes)
    gaussians._scale(slopes, gradient)


@pytest.mark.parametrize(("count", "others"), [(5, 4), (1, 6), (64, 10)])
@pytest.mark.parametrize("k", [1, 3, 4, 21])
def test_divergences_and_their_gradients(count: int, others: int, k: int) -> None:
    rng = np.random.default_rng(k)
    rows, spreads = (torch.from_numpy(2 * rng.normal(size=(n, 2 * k)).astype(np.float32)) for n in (others, count))
    queries = torch.cat([*moments(spreads), moments(spreads.flip(0))[1]], -1)
    weights = torch.from_numpy(rng.normal(size=(count, others)).astype(np.float32))
    entities, slopes, scores = torch.empty(others, 2 * k), torch.empty(others, k), torch.empty(count, others)
    of_queries, of_entities = torch.empty(count, 3 * k), torch.empty(others, 2 * k)
    table, ids = rows.numpy(), np.arange(others)
    moments_of(table, ids, entities.numpy(), slopes.numpy(), torch.zeros(others, 2 * k).numpy())
    torch.testing.assert_close(entities, torch.cat(moments(rows), -1))
    given = [part.numpy() for part in (queries, entities, weights, scores, of_queries, of_entities)]
    compare_gaussians(*given)
    moments_of(table, ids, entities.numpy(), slopes.numpy(), of_entities.numpy())
    plain = of_gradients(Divergence().outer, weights.double(), queries.double(), rows.double())
    torch.testing.assert_close(scores.double(), plain[0], rtol=1e-5, atol=1e-4)
    for ours, theirs in zip((of_queries, of_entities), plain[1:], strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-3, atol=1e-3)


def of_gradients(function: Callable[..., Tensor], weights: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Return the function's result, and the gradients of its weighted sum."""
    leaves = [part.clone().requires_grad_() for part in inputs]
    found = function(*leaves)
    return [found.detach(), *torch.autograd.grad((found * weights).sum(), leaves)]


@pytest.mark.parametrize("name", CONSTANTS)
@pytest.mark.parametrize("spread", [1, 30])
@pytest.mark.parametrize("apart", [False, True])
def test_losses_and_their_gradients(name: str, spread: float, apart: bool) -> None:
    rng, loss = np.random.default_rng(5), build(LOSSES.get(name), {})
    positives, objects, subjects = (
        torch.from_numpy(spread * rng.normal(size=n).astype(np.float32)) for n in (9, (9, 13), (9, 4))
    )
    left_out = torch.from_numpy(rng.random((9, 17)) < 0.2)
    left_out[4] = True  # a positive without corruptions
    masks = torch.split(left_out, [13, 4], -1)
    objects[masks[0]] *= 9  # scores that must not count
    scores, number = (positives, objects, subjects), losses.LOSSES.index(name)
    terms = (*(getattr(loss, constant) for constant in CONSTANTS[name]), 0.0, 0.0)[:2]

    def fast(first: Tensor) -> list[Tensor]:
        gradients = [torch.empty_like(part) for part in scores]
        arrays = [part.numpy() for part in (first, objects, subjects, left_out, *gradients)]
        return [torch.tensor(losses.loss_of_sides(number, terms, apart, *arrays)), *gradients]

    def plain(p: Tensor, *sides: Tensor) -> Tensor:
        kept = [side.masked_fill(mask, NO_CORRUPTION) for side, mask in zip(sides, masks, strict=True)]
        return loss(p, kept[0]) + loss(p, kept[1]) if apart else loss(p, torch.cat(kept, -1))

    for ours, theirs in zip(
        fast(positives), of_gradients(plain, torch.ones(()), *(part.double() for part in scores)), strict=True
    ):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6)
    assert fast(positives.where(positives < positives.max(), torch.nan))[0].isnan()


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("name", ["rotate", "complex", "hole_complex"])
def test_loops_score_float32_rows_as_the_formula_does(name: str, k: int) -> None:
    model, generator = build(MODELS.get(name), {}, k), torch.Generator().manual_seed(k)
    s, p, o = (torch.randn(9, width, generator=generator) for width in (2 * k, model.predicate_width, 2 * k))
    o[0], p[0] = s[0], 0.0  # a distance of 0
    tables, triples = torch.cat([s, o]), torch.stack([torch.arange(9), torch.arange(9), torch.arange(9, 18)], 1)
    with torch.inference_mode():
        fast = fast_scores(name, model, tables, p)
        assert fast is not None
        torch.testing.assert_close(
            fast(triples).double(), model.score(s.double(), p.double(), o.double()), rtol=1e-5, atol=1e-5
        )
        assert fast_scores(name, model, tables.double(), p.double()) is None


def test_loops_are_for_float32() -> None:
    assert fits_cpu_loops(torch.zeros(2))
    assert not fits_cpu_loops(torch.zeros(2), torch.zeros(2, dtype=torch.float64))


def test_numbers_that_are_not_finite_stay() -> None:
    queries = np.array([[0.0] * 20, [np.nan] * 20, [np.inf] * 20], np.float32)
    for comparator in COMPARATORS:
        kind, rows = COMPARISONS[comparator.name], np.ones((1, 1, 20), np.float32)
        scores, of_rows, of_queries = np.empty((1, 3, 1), np.float32), np.empty_like(rows), queries[None].copy()
        row_scores(kind, queries, np.ones((2, 20), np.float32), np.array([[1]] * 3), scores[0], 0, 3)
        assert [np.isfinite(scores[0, 0, 0]), np.isnan(scores[0, 1, 0]), np.isinf(scores[0, 2, 0])] == [True] * 3
        compare_chunk(kind, queries[None], rows, scores.copy(), scores, of_queries, of_rows)
        assert [np.isfinite(scores[0, 0, 0]), np.isnan(scores[0, 1, 0])] == [True] * 2
    adam, gradient = RowAdam(torch.zeros(3, 20)), np.full((1, 20), np.nan, np.float32)
    uses = (0, np.array([1]), np.arange(2), np.arange(1), gradient, *NOTHING, adam.table.numpy())
    UPDATES["adam"](adam, uses, 1, 0.1)(0, 1)
    assert adam.table.isnan().sum(1).tolist() == [0, 20, 0]
