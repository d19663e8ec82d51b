"""Rows of a table that training compares with queries where they are, without a copy."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Ints
from kgcore.loops.compiled import Array
from kgcore.loops.rows import query_gradients, row_scores
from kgcore.workers import Workers

PART = 256  # queries that a thread compares at a time


@dataclass
class TableRows:
    """Candidates for b queries: the rows `ids` (b, n) of a table (E, d).

    queries, scores, gradient  set by the backward pass of `compare`: (b, d) queries, (b, n) scores, and the gradient of
                               the loss with respect to these, from which follows that of the rows
    """

    table: Tensor
    ids: Ints
    workers: Workers
    queries: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    scores: Tensor = field(default_factory=lambda: torch.empty(0, 0))
    gradient: Tensor = field(default_factory=lambda: torch.empty(0, 0))

    def __len__(self) -> int:
        return int(self.ids.size)


class Compared(NamedTuple):
    """Comparisons of a step. The gradients of the rows follow from them: see `row_gradients` in kgcore/loops/rows.py.

    queries   (q, d) the queries of the first side, then those of the second side
    scores    flat: (b, n) scores of the first side, then (q - b, m) of the second side
    gradient  the gradient of the loss with respect to them
    sizes     b, n
    """

    queries: Array
    scores: Array
    gradient: Array
    sizes: tuple[int, int]


NOTHING = Compared(np.zeros((0, 0), np.float32), np.zeros(0, np.float32), np.zeros(0, np.float32), (0, 0))


def joined(sides: Sequence[TableRows], width: int) -> Compared:
    """Return the comparisons of two sides with rows of so many numbers, after the backward pass of `compare`."""
    queries = torch.cat([side.queries.reshape(-1, width) for side in sides])
    scores, gradient = (
        torch.cat([part.flatten() for part in parts])
        for parts in zip(*((side.scores, side.gradient) for side in sides), strict=True)
    )
    sizes = (len(sides[0].queries), sides[0].ids.shape[1])
    return Compared(queries.numpy(), scores.numpy(), gradient.numpy(), sizes)


def compare(kind: int, queries: Tensor, candidates: TableRows) -> Tensor:
    """Score each of the queries (b, d) with each of its own candidates: (b, n).

    The result is that of `Comparator.outer(queries[:, None], candidates.table[candidates.ids])`. The gradient of the
    queries follows by automatic differentiation. The backward pass stores in `candidates` what the gradient of the
    table needs.

    kind  the comparison, a number of kgcore/loops/rows.py
    """
    scores: Tensor = _Compare.apply(queries, candidates, kind)  # type: ignore[no-untyped-call]
    return scores


class _Compare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: TableRows, kind: int) -> Tensor:
        queries = queries.detach().contiguous()
        scores = queries.new_empty(candidates.ids.shape)
        q, table, out = queries.numpy(), candidates.table.numpy(), scores.numpy()

        def work(start: int, stop: int) -> None:
            row_scores(kind, q, table, candidates.ids, out, start, stop)

        candidates.workers.run(work, len(q), PART)
        ctx.save_for_backward(queries, scores)
        ctx.candidates, ctx.kind = candidates, kind
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (queries, scores), candidates, kind = ctx.saved_tensors, ctx.candidates, ctx.kind
        gradient = gradient.contiguous()
        of_queries = torch.empty_like(queries)
        q, table, found, g = queries.numpy(), candidates.table.numpy(), scores.detach().numpy(), gradient.numpy()
        sums = of_queries.numpy()

        def work(start: int, stop: int) -> None:
            query_gradients(kind, q, table, candidates.ids, found, g, sums[start:], start, stop)

        candidates.workers.run(work, len(q), PART)
        candidates.queries, candidates.scores, candidates.gradient = queries, scores.detach(), gradient
        return of_queries, None, None
