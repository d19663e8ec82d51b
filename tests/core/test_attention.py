"""Attention over neighbours: the compiled loops against their plain form in double precision."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kgcore.models.attention import Terms, attended, plain

ENTITIES, PREDICATES = 300, 4  # more entities than a part of the loops has


def arguments(rng: np.random.Generator, triples: np.ndarray, heads: int, k: int) -> list[Tensor]:
    """Return tables, the three terms of the logits, and the triples, for `attended`."""
    shapes = (
        (ENTITIES, heads * k),
        (PREDICATES, heads * k),
        *((rows, heads) for rows in (ENTITIES, ENTITIES, PREDICATES)),
    )
    return [*(torch.tensor(2 * rng.normal(size=shape), dtype=torch.float32) for shape in shapes), torch.tensor(triples)]


def drawn(rng: np.random.Generator, count: int) -> np.ndarray:
    """Draw triples. The last entities are only subjects or only objects, and the last predicate has no triples."""
    last = ENTITIES - 20
    return np.column_stack(
        [rng.integers(20, last, count), rng.integers(0, PREDICATES - 1, count), rng.integers(last, size=count)]
    )


def of_gradients(function: Any, given: list[Tensor], weights: Tensor) -> list[Tensor]:
    """Return the sums of a function and the gradients of all tables and terms."""
    *tables, triples = given
    leaves = [table.clone().to(weights.dtype).requires_grad_() for table in tables]
    terms: Terms = (leaves[2], leaves[3], leaves[4])
    found = function(leaves[0], leaves[1], terms, triples)
    return [found.detach(), *torch.autograd.grad((found * weights).sum(), leaves)]


@pytest.mark.parametrize(("heads", "k", "count"), [(1, 5, 1200), (2, 16, 1200), (3, 4, 2), (2, 3, 0)])
def test_loops_equal_the_plain_form(rng: np.random.Generator, heads: int, k: int, count: int) -> None:
    given = arguments(rng, drawn(rng, count), heads, k)
    weights = torch.tensor(rng.normal(size=(ENTITIES, heads * k)))
    found, expected = of_gradients(attended, given, weights.float()), of_gradients(plain, given, weights)
    for own, true in zip(found, expected, strict=True):
        assert own.dtype == torch.float32
        torch.testing.assert_close(own.double(), true, rtol=1e-4, atol=1e-4 * float(true.abs().max()))
    assert not found[0][ENTITIES - 20 :].any()  # they are never objects


def test_the_bits_do_not_depend_on_the_number_of_threads(rng: np.random.Generator) -> None:
    given, weights = arguments(rng, drawn(rng, 1200), 2, 8), torch.tensor(rng.normal(size=(ENTITIES, 16))).float()
    threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(of_gradients(attended, given, weights))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for more in found[1:] for one, other in zip(found[0], more, strict=True))
