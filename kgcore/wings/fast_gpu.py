"""A training step on a GPU, recorded as a CUDA graph.

A step of 1,152 positives has about 130 small kernels, and the GPU's host takes ten times as long to start them one by
one as the GPU takes to run them. So a step is recorded once for each shape of a batch and then replayed. A recorded
step never waits for the host, and its shapes do not depend on values: a row that occurs twice is updated twice, to the
same numbers. The formulas are those of the model, the loss and the optimiser.

`GpuBackend` chooses it for a whole training. The host draws the corruptions of the next step while the GPU works.
It draws the same corruptions as for a training on a CPU.
"""

import gc
import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from kgcore.config import TrainConfig
from kgcore.embed.losses.base import Loss
from kgcore.embed.models.base import GraphModel, Model
from kgcore.embed.optimisers.base import RowOptimiser
from kgcore.embed.training.batches import TrainingBatch
from kgcore.embed.training.objective import Gathered
from kgcore.embed.training.step import Backend, Evaluate, Tables, WholeStep
from kgcore.errors import KgcalWarning, first_line
from kgcore.registries import BACKENDS

WARM_UPS = 2  # steps of a shape before it is recorded: libraries allocate their workspaces in them
IN_FLIGHT = 4  # batches that the host may prepare before the GPU has read them


@BACKENDS.register("cuda")
class GpuBackend(Backend):
    """Recorded steps: see `Backend`."""

    @staticmethod
    def step(config: TrainConfig, model: Model, loss: Loss, evaluate: Evaluate, tables: Tables) -> WholeStep | None:
        """Return the recorded steps of a training. None: it has dropout, or its model encodes the graph."""
        if config.dropout or isinstance(model, GraphModel):
            return None
        return RecordedStep(evaluate, tables, tables.entities.table.device).run


class RecordedStep:
    """The steps of a training. Each shape of a batch has a recording. On a CPU, steps run without a recording.

    The corruptions must not depend on the scores of the step, and positives have no confidences.
    """

    def __init__(self, evaluate: Evaluate, tables: Tables, device: torch.device) -> None:
        self._evaluate, self._tables, self._device = evaluate, tables, device
        self._recordings: dict[tuple[int, ...], _Recording] = {}
        self._scratch = [
            torch.zeros(len(table.table), dtype=torch.int64, device=device)
            for table in (tables.entities, tables.predicates)
        ]

    def run(
        self, batch: TrainingBatch, number: int, learning_rate: float, also: Callable[[], None] = lambda: None
    ) -> Tensor:
        """Update the tables with a batch. Return its loss before the update. The next step overwrites this tensor.

        number  number of the step, from 1
        also    called once, while the GPU works
        """
        drawn = batch.corruptions
        shape = (len(batch.positives), batch.count, batch.chunk, drawn.objects.shape[1], drawn.subjects.shape[1])
        if shape not in self._recordings:  # a training has few: full or last batches, whole chunks or single positives
            self._recordings[shape] = _Recording(self.step, batch, self._device)
        loss = self._recordings[shape].run(batch, number, learning_rate)
        also()
        return loss

    def step(self, ids: Tensor, left_out: Tensor, when: Tensor, sizes: list[int], chunk: int, count: int) -> Tensor:
        """Update the tables, and return the loss of the batch before the update. Nothing here waits for the GPU.

        ids       subjects (b), objects (b), replacements of subjects, replacements of objects, predicates (b)
        left_out  (b, n + m) bool: True where the loss of a positive ignores a corruption
        when      (2,) float64: the number of the step and the learning rate
        sizes     numbers of ids of these five kinds
        chunk     number of positives that share their corruptions
        count     number of positives that count
        """
        tables, (entity_ids, predicate_ids) = self._tables, torch.split(ids, [sum(sizes[:-1]), sizes[-1]])
        leaves = [
            tables.entities.table.index_select(0, entity_ids).requires_grad_(),
            tables.predicates.table.index_select(0, predicate_ids).requires_grad_(),
            *(table.table.clone().requires_grad_() for table in tables.shared.values()),
        ]
        s, o, corrupted_s, corrupted_o = torch.split(leaves[0], sizes[:-1])
        rows = Gathered(s, o, leaves[1], corrupted_s, corrupted_o, (s, o))
        losses = self._evaluate(dict(zip(tables.shared, leaves[2:], strict=True)), rows, left_out, chunk, count)
        of_entities, of_predicates, *others = torch.autograd.grad(losses.loss + losses.penalty, leaves)
        number, rate = when.unbind()
        self._update(tables.entities, entity_ids, of_entities, self._scratch[0], number, rate)
        self._update(tables.predicates, predicate_ids, of_predicates, self._scratch[1], number, rate)
        for table, gradient in zip(tables.shared.values(), others, strict=True):
            table.step(torch.arange(len(gradient), device=self._device), gradient, number, rate)
        return losses.loss.detach()

    def _update(
        self, table: RowOptimiser, ids: Tensor, gradient: Tensor, scratch: Tensor, number: Tensor, rate: Tensor
    ) -> None:
        """Update the rows of a table with the gradient of each of their uses."""
        places = places_of_equals(ids, scratch)
        sums = torch.zeros_like(gradient).index_add_(0, places, gradient)
        table.step(ids, sums.index_select(0, places), number, rate)


def places_of_equals(ids: Tensor, scratch: Tensor) -> Tensor:
    """Return a place (n,) for each id: equal ids have the same place, at which one of them stands.

    ids      (n,) integers in [0, len(scratch))
    scratch  one integer for each possible id. It is overwritten
    """
    scratch.index_copy_(0, ids, torch.arange(len(ids), device=ids.device))
    return scratch.index_select(0, ids)


class _Recording:
    """A step for batches of one shape, the memory that it reads, and the CUDA graph that replays it.

    step  as `RecordedStep.step`
    """

    def __init__(self, step: Callable[..., Tensor], batch: TrainingBatch, device: torch.device) -> None:
        drawn, rows = batch.corruptions, len(batch.positives)
        self._step, self._on_gpu = step, device.type == "cuda"
        self._form = [rows, rows, drawn.subjects.size, drawn.objects.size, rows], batch.chunk, batch.count
        kinds = (
            ((3 * rows + drawn.subjects.size + drawn.objects.size,), torch.int64),
            (drawn.left_out.shape, torch.bool),
            ((2,), torch.float64),
        )
        self._host = [
            [torch.empty(shape, dtype=dtype, pin_memory=self._on_gpu) for shape, dtype in kinds]
            for _ in range(IN_FLIGHT)
        ]
        self._inputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in kinds]
        new_event: Callable[[], torch.cuda.Event] = torch.cuda.Event
        self._read = [new_event() for _ in range(IN_FLIGHT)] if self._on_gpu else []
        self._runs = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss = torch.zeros((), device=device)

    def run(self, batch: TrainingBatch, number: int, rate: float) -> Tensor:
        """Run the step for a batch. Record it first, after the warm-ups."""
        self._load(batch, number, rate)
        self._runs += 1
        if self._on_gpu and self._runs == WARM_UPS + 1:
            self._record()
        if self._graph is None:
            return self._step(*self._inputs, *self._form)
        self._graph.replay()
        return self._loss

    def _load(self, batch: TrainingBatch, number: int, rate: float) -> None:
        """Copy a batch to the memory that the step reads."""
        turn = self._runs % IN_FLIGHT
        if self._on_gpu:
            self._read[turn].synchronize()
        drawn, (s, p, o) = batch.corruptions, batch.positives.T
        ids, left_out, when = (tensor.numpy() for tensor in self._host[turn])
        np.concatenate([s, o, drawn.subjects.ravel(), drawn.objects.ravel(), p], out=ids)
        left_out[:], when[:] = drawn.left_out, (number, rate)
        for tensor, source in zip(self._inputs, self._host[turn], strict=True):
            tensor.copy_(source, non_blocking=True)
        if self._on_gpu:
            self._read[turn].record()

    def _record(self) -> None:
        """Record the step. If this fails, one KgcalWarning says so, and steps run without a recording."""
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # the memory of former recordings must not be freed while a step is recorded
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._loss = self._step(*self._inputs, *self._form)
        except RuntimeError as error:
            reason = f"training runs without a CUDA graph, which is slower: {first_line(error)}"
            warnings.warn(reason, KgcalWarning, stacklevel=2)
        else:
            self._graph = graph
