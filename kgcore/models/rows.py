"""Rows of a table that training compares with queries where they are, without a copy."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from kgcore.arrays import Ints
from kgcore.row_kernels import query_gradients, row_scores
from kgcore.workers import Workers

PART = 32 * 64  # queries of a part that one thread compares at a time


@dataclass
class TableRows:
    """Candidates for b blocks of queries: the rows `ids` (b, n) of a table (E, d).

    queries, scores, gradient  set by the backward pass of `compare`: (b, c, d) queries, (b, c, n) scores, and the
                               gradient of the loss with respect to these, from which follows that of the rows
    """

    table: Tensor
    ids: Ints
    workers: Workers
    queries: Tensor = field(default_factory=lambda: torch.empty(0, 0, 0))
    scores: Tensor = field(default_factory=lambda: torch.empty(0, 0, 0))
    gradient: Tensor = field(default_factory=lambda: torch.empty(0, 0, 0))

    def __len__(self) -> int:
        return int(self.ids.size)

    def copied(self) -> Tensor:
        """Return the rows (b, n, d) as a copy."""
        rows = self.table.index_select(0, torch.from_numpy(self.ids.ravel()))
        return rows.view(*self.ids.shape, -1)


def compare(kind: int, queries: Tensor, candidates: TableRows) -> Tensor:
    """Score each of the queries (b, c, d) with each candidate of its block: (b, c, n).

    The result is that of `Comparator.outer(queries, candidates.copied())`. The gradient of the queries follows by
    automatic differentiation. The backward pass stores in `candidates` what the gradient of the table needs.

    kind  the comparison, a number of kgcore/row_kernels.py
    """
    scores: Tensor = _Compare.apply(queries, candidates, kind)  # type: ignore[no-untyped-call]
    return scores


class _Compare(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, queries: Tensor, candidates: TableRows, kind: int) -> Tensor:
        queries = queries.detach().contiguous()
        scores = queries.new_empty(*queries.shape[:2], candidates.ids.shape[1])
        q, table, out = queries.numpy(), candidates.table.numpy(), scores.numpy()

        def work(start: int, stop: int) -> None:
            row_scores(kind, q, table, candidates.ids, out, start, stop)

        candidates.workers.run(work, len(q), _blocks_of(queries))
        ctx.save_for_backward(queries, scores)
        ctx.candidates, ctx.kind = candidates, kind
        return scores

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (queries, scores), candidates, kind = ctx.saved_tensors, ctx.candidates, ctx.kind
        gradient = gradient.contiguous()
        of_queries = torch.empty_like(queries)
        q, table, found, g = queries.numpy(), candidates.table.numpy(), scores.detach().numpy(), gradient.numpy()
        sums = of_queries.view(-1, queries.shape[2]).numpy()

        def work(start: int, stop: int) -> None:
            query_gradients(kind, q, table, candidates.ids, found, g, sums, start, stop)

        candidates.workers.run(work, len(q), _blocks_of(queries))
        candidates.queries, candidates.scores, candidates.gradient = queries, scores.detach(), gradient
        return of_queries, None, None


def _blocks_of(queries: Tensor) -> int:
    return max(1, PART // queries.shape[1] // 8)
