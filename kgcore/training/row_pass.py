"""The pass of a training step over rows of the tables that are read where they are, instead of copies of them.

It serves models of a query and a comparison whose comparator has loops over rows, on the CPU. The corruptions of a
step are then compared in the table itself. The gradients of equal rows are summed without a sort, for some rows at a
time, and the optimiser updates these rows while the gradient is still in the processor's cache.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kgcore.arrays import Ints, Triples
from kgcore.kernels import fits_kernel
from kgcore.models.base import Model, QueryModel
from kgcore.models.rows import TableRows
from kgcore.optimisers.base import RowOptimiser
from kgcore.row_kernels import distinct, places_by_row, row_gradients
from kgcore.training.corruptions import SharedCorruptions
from kgcore.training.objective import Gathered
from kgcore.training.tables import Leaf, Tables
from kgcore.workers import Workers

PART = 2**17  # numbers of the gradients that a thread sums and passes to the optimiser at a time: 512 KiB


@dataclass(frozen=True)
class Taken:
    """What a step differentiates: its positives' embeddings, the shared parameters, and rows of corruptions.

    leaves  the tensors that the loss is differentiated by: subjects, objects, predicates, then the shared parameters
    """

    positives: Triples
    rows: Gathered
    shared: dict[str, Leaf]
    leaves: list[Tensor]


class RowPass:
    """The rows that steps read and update, without copies of the corruptions' rows.

    workers  the threads that share the work. The result does not depend on their number
    """

    def __init__(self, tables: Tables, model: QueryModel, workers: Workers) -> None:
        self._tables, self._workers = tables, workers
        self._comparator = model.comparator
        self._slots = {
            name: np.full(len(table.table), -1, dtype=np.int32)
            for name, table in (("entities", tables.entities), ("predicates", tables.predicates))
        }

    def serves(self, sharing: int) -> bool:
        """Return whether the pass is the fastest one, if so many positives share their corruptions."""
        return self._comparator.reads_rows(sharing)

    def take(self, positives: Triples, drawn: SharedCorruptions) -> Taken:
        """Take what a step needs of its positives (b, 3) and their corruptions."""
        tables = self._tables
        s, p, o = (
            table.table.index_select(0, torch.from_numpy(positives[:, column])).requires_grad_()
            for column, table in enumerate((tables.entities, tables.predicates, tables.entities))
        )
        subjects, objects = (
            TableRows(tables.entities.table, np.ascontiguousarray(ids), self._workers)
            for ids in (drawn.subjects, drawn.objects)
        )
        shared = tables.take_shared()
        leaves = [s, o, p, *(leaf.values for leaf in shared.values())]
        return Taken(positives, Gathered(s, o, p, subjects, objects, torch.cat([s, o])), shared, leaves)

    def update(self, taken: Taken, gradients: tuple[Tensor, ...], step: int, learning_rate: float) -> None:
        """Update the tables with the gradients of the leaves, after the backward pass. `step` counts from 1."""
        of_s, of_o, of_p, *of_shared = gradients
        subjects, objects = taken.rows.corrupted_subjects, taken.rows.corrupted_objects
        assert isinstance(subjects, TableRows)
        assert isinstance(objects, TableRows)
        s, p, o = taken.positives.T
        none = TableRows(self._tables.predicates.table, np.zeros((0, 0), dtype=np.int64), self._workers)
        self._update("predicates", self._tables.predicates, p, of_p, (none, none), step, learning_rate)
        ends = np.concatenate([s, o])
        dense = torch.cat([of_s, of_o])
        self._update("entities", self._tables.entities, ends, dense, (objects, subjects), step, learning_rate)
        for leaf, gradient in zip(taken.shared.values(), of_shared, strict=True):
            leaf.update(gradient, step, learning_rate)

    def _update(
        self,
        name: str,
        table: RowOptimiser,
        ids: Ints,
        dense: Tensor,
        sides: tuple[TableRows, TableRows],
        step: int,
        learning_rate: float,
    ) -> None:
        """Update the rows that ids and sides name. `dense` (n, d) is the gradient of each use in ids (n,)."""
        every = np.concatenate([ids, *(side.ids.ravel() for side in sides)])
        rows, starts, order = numbered(every, self._slots[name])
        values, gradients, first = table.table.numpy(), dense.contiguous().numpy(), sides[0].queries
        queries = torch.cat([side.queries.reshape(-1, values.shape[1]) for side in sides]).numpy()
        scores, of_scores = (
            torch.cat([part.reshape(-1) for part in parts]).numpy()
            for parts in zip(*((side.scores, side.gradient) for side in sides), strict=True)
        )
        sizes = (max(1, first.shape[1]), sides[0].ids.shape[1], first.shape[0] * first.shape[1])
        numbers, kind = torch.from_numpy(rows), self._comparator.kind or 0

        def work(start: int, stop: int) -> None:
            sums = torch.empty(stop - start, values.shape[1])
            row_gradients(
                kind, values, rows, starts, order, gradients, queries, scores, of_scores, sizes, sums.numpy(),
                start, stop,
            )  # fmt: skip
            table.step(numbers[start:stop], sums, step, learning_rate)

        self._workers.run(work, len(rows), max(1, PART // values.shape[1]))


def numbered(ids: Ints, slots: npt.NDArray[np.int32]) -> tuple[Ints, Ints, Ints]:
    """Return the distinct ids (r,), ascending, and the places of each: see `places_by_row`.

    slots  -1 for every possible id, and again after the call
    """
    rows = np.empty_like(ids)
    rows = np.sort(rows[: distinct(ids, slots, rows)])  # rows in order of memory are read faster
    starts, order = np.empty(len(rows) + 1, dtype=np.int64), np.empty_like(ids)
    places_by_row(ids, slots, rows, starts, order)
    return rows, starts, order


def row_pass(tables: Tables, model: Model, dropout: float, threads: int) -> RowPass | None:
    """Return the pass over rows for a model, or None if the model, its tables or dropout need copies of the rows."""
    if not isinstance(model, QueryModel) or model.comparator.kind is None or dropout:
        return None
    fits = fits_kernel(tables.entities.table, tables.predicates.table)
    return RowPass(tables, model, Workers(threads)) if fits else None
