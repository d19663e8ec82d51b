"""The loops of training, compared with plain PyTorch and with automatic differentiation."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.scores import fits_loop
from kgcore.models.comparators import Comparator, DotProduct, NegativeDistance
from kgcore.models.complex_products import products
from kgcore.models.rotate import ModulusDistance
from kgcore.optimisers.adam import RowAdam
from kgcore.registries import LOSSES, MODELS
from kgcore.registry import build
from kgcore.workers import Workers


@given(seed=st.integers(0, 99), rows=st.integers(1, 9), width=st.integers(1, 40), steps=st.integers(1, 4))
def test_adam_updates_rows_as_plain_pytorch_does(seed: int, rows: int, width: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    start = torch.from_numpy(rng.normal(size=(9, width)).astype(np.float32))
    fast, plain = RowAdam(start.clone()), RowAdam(start.clone())
    for step in range(1, steps + 1):
        numbers = torch.from_numpy(np.sort(rng.choice(9, rows, replace=False)))
        gradient = torch.from_numpy(rng.normal(size=(rows, width)).astype(np.float32))
        fast.step(numbers, gradient, step, 0.1)
        plain.plain_step(numbers, gradient, 1 - RowAdam.BETA2**step, 0.1 / (1 - RowAdam.BETA1**step))
    for part in ("table", "first", "second"):
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


@pytest.mark.parametrize("comparator", COMPARATORS)
@pytest.mark.parametrize("sizes", [(3, 5, 4, 8), (1, 1, 1, 2), (2, 7, 3, 34)])
def test_queries_are_compared_with_the_candidates_of_their_chunk(
    comparator: Comparator, sizes: tuple[int, int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgcore.models.chunks.PART", 2 * 7 * 3 * 34 // 2)  # two parts of the last sizes
    chunks, count, others, width = sizes
    rng = np.random.default_rng(3)
    queries, entities = (
        torch.from_numpy(rng.integers(-4, 5, (chunks, rows, width)).astype(np.float32) / 2) for rows in (count, others)
    )  # some differences are 0
    entities[0, 0] = queries[0, 0] + 1e-3 * torch.arange(1, 1 + width)  # a pair whose distance is small
    weights = torch.from_numpy(rng.normal(size=(chunks, count, others)).astype(np.float32))
    found = of_gradients(lambda q, e: comparator.of_chunks(q, e, Workers(2)), weights, queries, entities)
    plain = of_gradients(comparator.outer, weights.double(), queries.double(), entities.double())
    for ours, theirs in zip(found, plain, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-4)


def of_gradients(function: Callable[..., Tensor], weights: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Return the function's result, and the gradients of its weighted sum."""
    leaves = [part.clone().requires_grad_() for part in inputs]
    found = function(*leaves)
    return [found.detach(), *torch.autograd.grad((found * weights).sum(), leaves)]


@pytest.mark.parametrize("conjugated", [False, True])
def test_complex_products(conjugated: bool) -> None:
    rng = np.random.default_rng(4)
    a, b, weights = (torch.from_numpy(rng.normal(size=(5, 14)).astype(np.float32)) for _ in range(3))
    found = of_gradients(lambda x, y: products(x, y, conjugated=conjugated), weights, a, b)
    plain = of_gradients(lambda x, y: products(x, y, conjugated=conjugated), *(x.double() for x in (weights, a, b)))
    complex_a, complex_b = (torch.complex(*part.chunk(2, -1)) for part in (a, b))
    expected = (complex_a.conj() if conjugated else complex_a) * complex_b
    torch.testing.assert_close(found[0], torch.cat([expected.real, expected.imag], -1))
    for ours, theirs in zip(found, plain, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in LOSSES.names() if build(LOSSES.get(name), {}).kernel()])
@pytest.mark.parametrize("spread", [1, 30])
def test_losses_and_their_gradients(name: str, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.losses.base.ROWS", 40)  # several parts
    rng, loss = np.random.default_rng(5), build(LOSSES.get(name), {})
    positives, corruptions = (torch.from_numpy(spread * rng.normal(size=n).astype(np.float32)) for n in (9, (9, 13)))
    left_out = torch.from_numpy(rng.random((9, 13)) < 0.2)
    left_out[4] = True  # a positive without corruptions
    corruptions[left_out] *= 9  # scores that must not count
    scores, one = (positives, corruptions), torch.ones(())
    found = of_gradients(lambda p, c: loss.counted(p, c, left_out, Workers(2)), one, *scores)
    plain = of_gradients(lambda p, c: loss.counted(p, c, left_out), one, *(part.double() for part in scores))
    for ours, theirs in zip(found, plain, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-6)
    lost = loss.counted(positives.where(positives < positives.max(), torch.nan), corruptions, left_out, Workers(1))
    assert lost.isnan()


@pytest.mark.parametrize("k", [1, 7, 40])
@pytest.mark.parametrize("name", ["rotate", "complex", "hole_complex"])
def test_loops_score_float32_rows_as_the_formula_does(name: str, k: int) -> None:
    model, generator = build(MODELS.get(name), {}, k), torch.Generator().manual_seed(k)
    s, p, o = (torch.randn(9, width, generator=generator) for width in (2 * k, model.predicate_width, 2 * k))
    o[0], p[0] = s[0], 0.0  # a distance of 0
    with torch.inference_mode():
        prepared, predicates = model.prepared(p)
        assert fits_loop(s, predicates, o)
        found = prepared.score(s, predicates, o)
        expected = model.score(s.double(), p.double(), o.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_loops_are_for_float32() -> None:
    queries = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    entities = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    assert not fits_cpu_loops(queries)
    torch.autograd.gradcheck(lambda q, e: NegativeDistance(1).of_chunks(q, e, Workers(1)), (queries, entities))


def test_numbers_that_are_not_finite_stay() -> None:
    queries = torch.tensor([[[0.0] * 20, [np.nan] * 20, [np.inf] * 20]], requires_grad=True)
    distances = -NegativeDistance(1).of_chunks(queries, torch.zeros(1, 1, 20), Workers(1))
    assert distances[0, 0, 0] == 0
    assert distances[0, 1, 0].isnan()
    assert distances[0, 2, 0].isinf()
    adam = RowAdam(torch.zeros(3, 20))
    adam.step(torch.tensor([1]), torch.full((1, 20), np.nan), 1, 0.1)
    assert adam.table.isnan().sum(1).tolist() == [0, 20, 0]
