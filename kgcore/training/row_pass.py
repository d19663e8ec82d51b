"""The pass of a training step over the rows of the tables that it uses, on the CPU.

A step of some models is one loop: see `StepLoop`. In a step of the others, every use of a row is a leaf of automatic
differentiation; corruptions that no positives share are not copied, if the comparator has loops over rows. In both, the
gradients of equal rows are summed without a sort, for some rows at a time, and the optimiser updates these rows while
the gradient is still in the processor's cache.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kgcore.arrays import Ints, Triples
from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.rows import distinct, places_by_row
from kgcore.models.base import GraphModel, Model, QueryModel
from kgcore.models.rows import NOTHING, Compared, TableRows, joined
from kgcore.optimisers.base import RowOptimiser, Uses
from kgcore.training.batches import Batch
from kgcore.training.corruptions import SharedCorruptions
from kgcore.training.objective import Gathered
from kgcore.training.step_loop import StepLoop
from kgcore.training.tables import Leaf, Tables
from kgcore.workers import Job, Workers, parts

PARTS, LEAST = 16, 256  # parts of the rows that a step updates, so that threads finish together; rows of a part

Numbered = tuple[Ints, Ints, Ints]  # rows and their uses: see `numbered`


@dataclass(frozen=True)
class Taken:
    """What a step differentiates: rows of its positives and corruptions, and the shared parameters.

    rows         the embeddings of the step. Corruptions are copies, or rows that are read where they are
    entities     (u,) the entities of `of_entities`, one after the other
    of_entities  the copies of rows of entities: those of the subjects and the objects, then those of corruptions
    predicates   the predicates of the rows of `rows.predicates`
    """

    rows: Gathered
    entities: Ints
    of_entities: list[Tensor]
    predicates: Ints
    shared: dict[str, Leaf]

    def leaves(self) -> list[Tensor]:
        """Return the tensors that the loss is differentiated by."""
        return [*self.of_entities, self.rows.predicates, *(leaf.values for leaf in self.shared.values())]


class RowPass:
    """The rows that steps read and update.

    workers     the threads that share the work. The result does not depend on their number
    has_loops   whether the comparisons are loops that workers share. If not, PyTorch's threads share the work
    """

    def __init__(self, tables: Tables, model: Model, threads: int, loop: StepLoop | None = None) -> None:
        self._loop = loop
        self._comparator = model.comparator if isinstance(model, QueryModel) else None
        self._groups = isinstance(model, QueryModel) and model.groups_predicates
        self.has_loops = self._comparator is not None and self._comparator.kind is not None and not self._groups
        self.workers = Workers(threads if self.has_loops else 1)
        self._tables = tables
        self._slots = {
            name: np.full(len(table.table), -1, dtype=np.int32)
            for name, table in (("entities", tables.entities), ("predicates", tables.predicates))
        }

    @contextmanager
    def own_threads(self) -> Iterator[None]:
        """Keep PyTorch's own threads from the cores that the loops need: in the block, it works with one thread."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1 if self.has_loops else threads)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def reads_rows(self, sharing: int) -> bool:
        """Return whether corruptions are read where they are, if so many positives share theirs."""
        return sharing == 1 and self._comparator is not None and self._comparator.kind is not None

    def take(self, positives: Triples, drawn: SharedCorruptions) -> Taken:
        """Take what a step needs of its positives (b, 3) and their corruptions."""
        tables, reads = self._tables, self.reads_rows(len(positives) // len(drawn.subjects))
        used = [np.ascontiguousarray(column) for column in (positives[:, 0], positives[:, 2])]
        of_entities, corrupted = [_copies(tables.entities, ids) for ids in used], list[Tensor | TableRows]()
        for ids in (drawn.subjects, drawn.objects):
            if reads:
                corrupted.append(TableRows(tables.entities.table, np.ascontiguousarray(ids), self.workers))
                continue
            copies = _copies(tables.entities, ids.ravel())
            corrupted.append(copies)
            if ids.size:  # the loss does not depend on a side without corruptions
                used.append(ids.ravel())
                of_entities.append(copies)
        subjects, objects = of_entities[:2]
        ids, places = np.ascontiguousarray(positives[:, 1]), None
        if self._groups:
            ids, inverse = np.unique(ids, return_inverse=True)
            places = torch.from_numpy(inverse)
        predicates = _copies(tables.predicates, ids)
        rows = Gathered(subjects, objects, predicates, corrupted[0], corrupted[1], (subjects, objects), places)
        return Taken(rows, np.concatenate(used), of_entities, ids, tables.take_shared())

    def update(self, taken: Taken, gradients: tuple[Tensor, ...], step: int, learning_rate: float) -> None:
        """Update the tables with the gradients of the leaves, after the backward pass. `step` counts from 1."""
        count, tables = len(taken.of_entities), self._tables
        of_entities, of_predicates, of_shared = gradients[:count], gradients[count], gradients[count + 1 :]
        corrupted = (taken.rows.corrupted_objects, taken.rows.corrupted_subjects)
        sides = [rows for rows in corrupted if isinstance(rows, TableRows)]
        ids = np.concatenate([taken.entities, *(side.ids.ravel() for side in sides)])
        compared = joined(sides, tables.entities.table.shape[1]) if sides else NOTHING
        entities, predicates = self._numbered("entities", ids), self._numbered("predicates", taken.predicates)
        jobs = [
            *self._updates(tables.predicates, predicates, of_predicates, NOTHING, step, learning_rate),
            *self._updates(tables.entities, entities, torch.cat(of_entities), compared, step, learning_rate),
        ]
        self.workers.run_all(jobs)
        for leaf, gradient in zip(taken.shared.values(), of_shared, strict=True):
            leaf.update(gradient, step, learning_rate)

    def has_loop(self, batch: Batch) -> bool:
        """Return whether one loop computes the losses and the gradients of the batch."""
        return self._loop is not None and batch.confidences is None

    def run_loop(self, batch: Batch, step: int, learning_rate: float, also: Callable[[], None]) -> Tensor:
        """Update the tables with a batch by the step loop. Return its loss before the update.

        also  a job to do while the tables are updated
        """
        assert self._loop is not None
        tables, positives, drawn = self._tables, batch.positives, batch.corruptions
        with self.own_threads():  # PyTorch's threads wait busily for a while after each use
            started = self._loop.start(tables, batch)
        ids = np.concatenate([positives[:, 0], positives[:, 2], drawn.objects.ravel(), drawn.subjects.ravel()])
        found = dict[str, Numbered]()

        def number() -> None:
            found["entities"] = self._numbered("entities", ids)
            found["predicates"] = self._numbered("predicates", np.ascontiguousarray(positives[:, 1]))

        self.workers.run_all([number, *started.jobs])
        entities, predicates = found["entities"], found["predicates"]
        first, *others = [
            *self._updates(tables.entities, entities, started.of_entities, started.compared, step, learning_rate),
            *self._updates(tables.predicates, predicates, started.of_predicates, NOTHING, step, learning_rate),
        ]
        self.workers.run_all([first, also, *others])
        return started.losses.sum()

    def _numbered(self, name: str, ids: Ints) -> Numbered:
        """Return the rows of a table that ids (n,) name, and their uses."""
        return numbered(ids, self._slots[name])

    def _updates(
        self,
        table: RowOptimiser,
        uses: Numbered,
        dense: Tensor,
        compared: Compared,
        step: int,
        learning_rate: float,
    ) -> list[Job]:
        """Return jobs that update some of the rows each.

        uses      the rows and their uses: first those of `dense`, then those of `compared`
        dense     (u, d) the gradients of the first u uses
        compared  the comparisons of the other uses
        """
        kind = (self._comparator.kind if self._comparator else None) or 0
        gradients = dense.contiguous().numpy()
        every = Uses(
            kind, *uses, gradients, compared.queries, compared.scores, compared.gradient, compared.sizes
        )  # fmt: skip
        update, count = table.updater(every, step, learning_rate), len(every.rows)
        return parts(update, count, max(LEAST, -(-count // PARTS)))


def numbered(ids: Ints, slots: npt.NDArray[np.int32]) -> Numbered:
    """Return the distinct ids (r,), ascending, and the places of each: see `places_by_row`.

    slots  -1 for every possible id, and again after the call
    """
    rows = np.empty_like(ids)
    rows = np.sort(rows[: distinct(ids, slots, rows)])  # rows in order of memory are read faster
    starts, order = np.empty(len(rows) + 1, dtype=np.int64), np.empty_like(ids)
    places_by_row(ids, slots, rows, starts, order)
    return rows, starts, order


def _copies(table: RowOptimiser, ids: Ints) -> Tensor:
    """Return copies of the rows `ids` of a table, a leaf tensor of autograd."""
    return table.table.index_select(0, torch.from_numpy(ids)).requires_grad_()


def row_pass(
    tables: Tables, model: Model, dropout: float, threads: int, loop: StepLoop | None = None
) -> RowPass | None:
    """Return the pass over rows for a model, or None if the model, its tables or dropout need a table of their own."""
    if isinstance(model, GraphModel) or dropout or not fits_cpu_loops(tables.entities.table, tables.predicates.table):
        return None
    return RowPass(tables, model, threads, loop)
