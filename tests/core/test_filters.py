"""ConvKB's loops against its plain form in double precision."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from kgcore.models.base import Model
from tests.core.model_cases import bound

B, Q, C, K = 5, 4, 3, 11  # blocks, queries, candidates, numbers of a row; odd, so that registers are not full


def arguments(rng: np.random.Generator, *shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.tensor(rng.normal(size=shape)) for shape in shapes]


def of_gradients(name: str, dtype: torch.dtype, rows: list[Tensor], weights: Tensor) -> list[Tensor]:
    """Return the scores of a method of ConvKB, and the gradients of all rows and of all shared numbers."""
    model = bound("convkb", {"filters": 3}, k=K)
    shared = {key: value.to(dtype).requires_grad_() for key, value in model.shared.items()}
    leaves = [part.to(dtype).requires_grad_() for part in rows]
    method: Any = getattr(Model.bound(model, shared), name)
    scores = method(*leaves)
    every = [*leaves, *shared.values()]
    return [scores.detach(), *torch.autograd.grad((scores * weights.to(dtype)).sum(), every)]


@pytest.mark.parametrize("name", ["score", "score_objects", "score_subjects"])
@pytest.mark.parametrize("leading", [(), (B,), (1,), (2, 20)])
def test_loops_equal_the_plain_form(name: str, leading: tuple[int, ...], rng: np.random.Generator) -> None:
    entities, predicates, candidates = (*leading, Q, K), (*leading, Q, K), (*leading, C, K)
    shapes = {
        "score": ((entities, predicates, entities), (*leading, Q)),
        "score_objects": ((entities, predicates, candidates), (*leading, Q, C)),
        "score_subjects": ((predicates, entities, candidates), (*leading, Q, C)),
    }
    rows, weights = arguments(rng, *shapes[name][0]), arguments(rng, shapes[name][1])[0]
    found, expected = (of_gradients(name, dtype, rows, weights) for dtype in (torch.float32, torch.float64))
    for own, true in zip(found, expected, strict=True):
        torch.testing.assert_close(own.double(), true, rtol=1e-4, atol=1e-5 * float(true.abs().max()))


def test_rows_of_other_shapes_are_broadcast(rng: np.random.Generator) -> None:
    model, (s, p, o) = bound("convkb", {"filters": 3}, k=K), arguments(rng, (Q, 1, K), (K,), (1, C, K))
    expected = model.score(s, p, o)
    single = model.bound({key: value.float() for key, value in model.shared.items()})
    torch.testing.assert_close(single.score(s.float(), p.float(), o.float()).double(), expected, rtol=1e-4, atol=1e-5)


def test_the_bits_do_not_depend_on_the_number_of_threads(rng: np.random.Generator) -> None:
    rows = arguments(rng, (20, Q, K), (20, Q, K), (20, C, K))
    [weights], threads, found = arguments(rng, (20, Q, C)), torch.get_num_threads(), []
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            found.append(of_gradients("score_objects", torch.float32, rows, weights))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for more in found[1:] for one, other in zip(found[0], more, strict=True))
