"""A training step on a GPU, recorded as a CUDA graph.

A step of 1,152 positives has about 130 small kernels, and the GPU's host takes ten times as long to start them one by
one as the GPU takes to run them. So a step is recorded once for each shape of a batch and then replayed. A recorded
step never waits for the host, and its shapes do not depend on values: a row that occurs twice is updated twice, to the
same numbers. A table that is not large is updated in one pass, and the steps of a long training are compiled. The
formulas are those of the model, the loss and the optimiser.

`GpuBackend` chooses it for a whole training. Where the GPU can draw the corruptions (draws.py), the host only replays
steps. Otherwise it draws the corruptions of the next step while the GPU works, as for a training on a CPU.
"""

import gc
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.losses.base import Loss
from kgcore.embed.models.base import GraphModel, Model
from kgcore.embed.training.batches import Batches, StepCorruptions, TrainingBatch
from kgcore.embed.training.objective import Gathered, StepLosses
from kgcore.embed.training.step import Backend, Evaluate, Tables, WholeEpoch, WholeStep, compile_if_possible
from kgcore.errors import KgcalWarning, first_line
from kgcore.registries import BACKENDS
from kgcore.wings.fast_gpu.draws import DrawnSteps, Steps

WARM_UPS = 2  # steps of a shape before it is recorded: libraries allocate their workspaces in them
IN_FLIGHT = 4  # batches that the host may prepare before the GPU has read them
DRAWN = 2**25  # corruptions of the steps that are drawn at a time
SMALL, LARGE = 2**22, 2**27  # numbers of a table: up to SMALL, steps update it in one pass; above LARGE, row by row
USED = 0.25  # between them: in one pass if a step uses so many entities, as a share of all
COMPILE_FROM_STEPS = 30_000  # compiling takes 6 to 20 s, and saves .47 ms of a step of the paper's TransE on WN11
RECORDING = threading.Lock()  # no other thread may wait for all of the GPU's work while a step is recorded


@BACKENDS.register("cuda")
class GpuBackend(Backend):
    """Recorded steps: see `Backend`."""

    @staticmethod
    def step(config: TrainConfig, model: Model, loss: Loss, evaluate: Evaluate, tables: Tables) -> WholeStep | None:
        """Return the recorded steps of a training. None: it has dropout, or its model encodes the graph."""
        if config.dropout or isinstance(model, GraphModel):
            return None
        return RecordedStep(evaluate, tables, tables.entities.table.device)


@dataclass(frozen=True)
class Form:
    """The shape of a batch.

    rows      b, the number of positives in whole chunks
    count     number of positives that count
    chunk     number of positives that share their corruptions
    subjects  m, the number of replacements of a chunk's subjects
    objects   n, the number of replacements of its objects
    """

    rows: int
    count: int
    chunk: int
    subjects: int
    objects: int

    @property
    def sizes(self) -> list[int]:
        """Return the numbers of ids: subjects, objects, replacements of subjects, those of objects, predicates."""
        chunks = self.rows // self.chunk
        return [self.rows, self.rows, chunks * self.subjects, chunks * self.objects, self.rows]

    @property
    def inputs(self) -> list[tuple[tuple[int, ...], torch.dtype]]:
        """Return the shapes and types of what `RecordedStep.step` reads: ids, the mask, the number and the rate."""
        mask = (self.rows, self.subjects + self.objects)
        return [((sum(self.sizes),), torch.int64), (mask, torch.bool), ((2,), torch.float64)]


class Epochs:
    """The epochs of a training whose corruptions the GPU draws.

    length    number of steps of an epoch
    compiled  whether to compile the steps of the shape that occurs most often
    """

    def __init__(
        self, drawn: DrawnSteps, config: TrainConfig, length: int, step: "RecordedStep", compiled: bool
    ) -> None:
        self._drawn, self._config, self._length, self._step, self._compiled = drawn, config, length, step, compiled
        self._fast_draw, self._drawn_for = drawn.draw, torch.Size()
        if compiled:
            self._fast_draw = compile_if_possible(drawn.draw, "drawing corruptions")

    def run(self, epoch: int) -> float:
        """Train on each positive once, in a new order. Return the sum of the losses. Waits for the GPU at the end."""
        device = self._step.device
        shapes, kinds = self._drawn.epoch(epoch)
        if self._compiled:
            self._step.compile_for(self._form(max(shapes, key=lambda steps: len(steps.rows))))
        first, lost = 1 + (epoch - 1) * self._length, torch.zeros((), device=device)
        most = max(steps.rows.shape[1] for steps in shapes) * sum(self._drawn.most.values())
        length = max(1, DRAWN // max(most, 1))
        for start in range(0, len(kinds), length):
            window, batches = kinds[start : start + length], {}
            for kind in sorted(set(window)):
                places = [place for place, other in enumerate(window, first + start) if other == kind]
                part, shapes[kind] = shapes[kind].cut(len(places))
                numbers = torch.tensor(places).to(device)
                batches[kind] = zip(*self._draw(part, numbers), self._when(numbers), strict=True)
            for kind in window:
                lost += self._step.replay(self._form(shapes[kind]), next(batches[kind]))
        return float(lost)

    def _draw(self, steps: Steps, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Draw corruptions: see `DrawnSteps.draw`. If steps are compiled, so are the draws of the first shape on a GPU.

        The first compiled draw is compared with a plain one: for a CPU, PyTorch 2.13 compiles some of them wrongly.
        """
        given = (steps.rows, steps.chunk, numbers)
        if (
            not self._compiled
            or numbers.device.type == "cpu"
            or steps.rows.shape != (self._drawn_for or steps.rows.shape)
        ):
            return self._drawn.draw(*given)
        drawn = self._fast_draw(*given)
        if not self._drawn_for:
            plain, self._drawn_for = self._drawn.draw(*given), steps.rows.shape
            if not all(map(torch.equal, drawn, plain)):
                reason = "corruptions are drawn without torch.compile, which is slower: the compiled draws are wrong"
                warnings.warn(reason, KgcalWarning, stacklevel=2)
                self._fast_draw = self._drawn.draw
                return plain
        return drawn

    def _form(self, steps: Steps) -> Form:
        most = self._drawn.most
        return Form(steps.rows.shape[1], steps.count, steps.chunk, most[SUBJECT], most[OBJECT])

    def _when(self, numbers: Tensor) -> Tensor:
        """Return the number and the learning rate (n, 2) of each step (n,): see `TrainingState.run_epoch`."""
        config = self._config
        fallen = (1 - config.learning_rate_end) * (numbers.double() - 1) / (config.epochs * self._length)
        return torch.stack([numbers.double(), config.learning_rate * (1 - fallen)], 1)


class RecordedStep(WholeStep):
    """The steps of a training. Each shape of a batch has a recording. On a CPU, steps run without a recording.

    The corruptions must not depend on the scores of the step, and positives have no confidences.
    """

    def __init__(self, evaluate: Evaluate, tables: Tables, device: torch.device) -> None:
        self._evaluate, self._tables, self.device = evaluate, tables, device
        self._compiled_for: Form | None = None
        self._losses_of, self._update_of = self._losses, self._update
        self._recordings: dict[Form, _Recording] = {}
        self._host: dict[Form, _HostBatches] = {}
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
        subjects, objects = drawn.subjects.shape[1], drawn.objects.shape[1]
        form = Form(len(batch.positives), batch.count, batch.chunk, subjects, objects)
        if form not in self._host:
            self._host[form] = _HostBatches(form, self.device)
        with self._host[form].load(batch, number, learning_rate) as inputs:
            loss = self.replay(form, inputs)
        also()
        return loss

    def replay(self, form: Form, inputs: Sequence[Tensor]) -> Tensor:
        """Update the tables with a batch on any device. Return its loss as `run` does.

        inputs  as `Form.inputs`
        """
        if form not in self._recordings:  # a training has few: full or last batches, whole chunks or single positives
            self._recordings[form] = _Recording(self.step, form, self.device)
        return self._recordings[form].run(inputs)

    def epochs(
        self,
        graph: KnowledgeGraph,
        config: TrainConfig,
        corruptions: StepCorruptions,
        batches: Batches,
        compiled: bool | None,
    ) -> WholeEpoch | None:
        """Return what trains whole epochs. None: a GPU cannot draw the corruptions."""
        if not DrawnSteps.can_draw(corruptions):
            return None
        drawn = DrawnSteps(graph, corruptions, batches, config.seed, self.device)
        worth = compiled is None and config.epochs * len(batches) >= COMPILE_FROM_STEPS
        return Epochs(drawn, config, len(batches), self, worth).run

    def compile_for(self, form: Form) -> None:
        """Use compiled code for the batches of this shape, if they update entities in one pass."""
        if self._compiled_for is None:
            self._losses_of = compile_if_possible(self._losses, "training")
            self._update_of = compile_if_possible(self._update, "training")
        self._compiled_for = form

    def step(self, form: Form, ids: Tensor, left_out: Tensor, when: Tensor) -> Tensor:
        """Update the tables, and return the loss of the batch before the update. Nothing here waits for the GPU.

        ids       subjects (b), objects (b), replacements of subjects, replacements of objects, predicates (b)
        left_out  (b, n + m) bool: True where the loss of a positive ignores a corruption
        when      (2,) float64: the number of the step and the learning rate
        """
        tables, (number, rate) = self._tables, when.unbind()
        entity_ids, predicate_ids = torch.split(ids, [sum(form.sizes[:-1]), form.sizes[-1]])
        dense = self._is_dense(len(entity_ids))
        fast = dense and form == self._compiled_for
        losses_of, update = (self._losses_of, self._update_of) if fast else (self._losses, self._update)
        used = ((tables.entities, entity_ids), (tables.predicates, predicate_ids))
        leaves = [
            *(table.table.detach() if dense else table.table.index_select(0, rows) for table, rows in used),
            *(table.table.detach() for table in tables.shared.values()),
        ]
        for leaf in leaves:
            leaf.requires_grad_()
        losses = losses_of(
            form.sizes, form.chunk, form.count, leaves, [entity_ids, predicate_ids] if dense else [], left_out
        )
        gradients = torch.autograd.grad(losses.loss + losses.penalty, leaves)
        if dense:
            update([entity_ids, predicate_ids], gradients, number, rate)
        else:
            for (table, rows), gradient, scratch in zip(used, gradients, self._scratch, strict=False):
                places = places_of_equals(rows, scratch)
                sums = torch.zeros_like(gradient).index_add_(0, places, gradient)
                table.step(rows, sums.index_select(0, places), number, rate)
            self._update([], gradients[2:], number, rate)
        return losses.loss.detach()

    def _is_dense(self, uses: int) -> bool:
        """Return whether the gradient of a step is one of all entities, not one of each use of an entity.

        Then a step has fewer and larger kernels, and needs memory for some more tables of this size.
        """
        entities = self._tables.entities.table
        return entities.numel() <= (LARGE if uses >= USED * len(entities) else SMALL)

    def _losses(
        self,
        sizes: list[int],
        chunk: int,
        count: int,
        leaves: Sequence[Tensor],
        ids: Sequence[Tensor],
        left_out: Tensor,
    ) -> StepLosses:
        """Return the losses of a batch. The first three arguments are those of its `Form`: torch.compile knows numbers.

        leaves  the rows of entities and predicates, and the shared tables
        ids     the rows of all entities and of all predicates that the batch uses; empty: `leaves` has these already
        """
        entities, predicates, *others = leaves
        if ids:
            entities, predicates = entities.index_select(0, ids[0]), predicates.index_select(0, ids[1])
        s, o, corrupted_s, corrupted_o = torch.split(entities, sizes[:-1])
        rows = Gathered(s, o, predicates, corrupted_s, corrupted_o, (s, o))
        shared = dict(zip(self._tables.shared, others, strict=True))
        return self._evaluate(shared, rows, left_out, chunk, count)

    def _update(self, ids: Sequence[Tensor], gradients: Sequence[Tensor], number: Tensor, rate: Tensor) -> None:
        """Update whole tables: the rows `ids` of entities and predicates, if given, and all rows of shared tables."""
        tables = [*(self._tables.entities, self._tables.predicates)[: len(ids)], *self._tables.shared.values()]
        for place, (table, gradient) in enumerate(zip(tables, gradients, strict=True)):
            used = torch.full((len(gradient),), place >= len(ids), device=gradient.device)
            if place < len(ids):
                used = used.index_fill(0, ids[place], True)
            table.step_where(used, gradient, number, rate)


def places_of_equals(ids: Tensor, scratch: Tensor) -> Tensor:
    """Return a place (n,) for each id: equal ids have the same place, at which one of them stands.

    ids      (n,) integers in [0, len(scratch))
    scratch  one integer for each possible id. It is overwritten
    """
    scratch.index_copy_(0, ids, torch.arange(len(ids), device=ids.device))
    return scratch.index_select(0, ids)


class _HostBatches:
    """Memory of the host through which batches of one shape get to the GPU."""

    def __init__(self, form: Form, device: torch.device) -> None:
        self._on_gpu, self._runs = device.type == "cuda", 0
        self._buffers = [
            [torch.empty(shape, dtype=dtype, pin_memory=self._on_gpu) for shape, dtype in form.inputs]
            for _ in range(IN_FLIGHT)
        ]
        new_event: Callable[[], torch.cuda.Event] = torch.cuda.Event
        self._read = [new_event() for _ in range(IN_FLIGHT)] if self._on_gpu else []

    @contextmanager
    def load(self, batch: TrainingBatch, number: int, rate: float) -> Iterator[Sequence[Tensor]]:
        """Yield the inputs of a step. The block starts the copies that read them."""
        turn = self._runs % IN_FLIGHT
        self._runs += 1
        if self._on_gpu:
            self._read[turn].synchronize()
        drawn, (s, p, o) = batch.corruptions, batch.positives.T
        ids, left_out, when = (tensor.numpy() for tensor in self._buffers[turn])
        np.concatenate([s, o, drawn.subjects.ravel(), drawn.objects.ravel(), p], out=ids)
        left_out[:], when[:] = drawn.left_out, (number, rate)
        yield self._buffers[turn]
        if self._on_gpu:
            self._read[turn].record()


class _Recording:
    """A step for batches of one shape, the memory that it reads, and the CUDA graph that replays it.

    step  as `RecordedStep.step`
    """

    def __init__(self, step: Callable[..., Tensor], form: Form, device: torch.device) -> None:
        self._step, self._form, self._on_gpu = step, form, device.type == "cuda"
        self._inputs = [torch.empty(shape, dtype=dtype, device=device) for shape, dtype in form.inputs]
        self._runs = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._loss = torch.zeros((), device=device)

    def run(self, inputs: Sequence[Tensor]) -> Tensor:
        """Run the step for a batch. Record it first, after the warm-ups."""
        for tensor, source in zip(self._inputs, inputs, strict=True):
            tensor.copy_(source, non_blocking=True)
        self._runs += 1
        if self._on_gpu and self._runs == WARM_UPS + 1:
            self._record()
        if self._graph is None:
            return self._step(self._form, *self._inputs)
        with RECORDING:  # PyTorch allows no replay while another step is recorded
            self._graph.replay()
        return self._loss

    def _record(self) -> None:
        """Record the step. If this fails, one KgcalWarning says so, and steps run without a recording."""
        graph = torch.cuda.CUDAGraph()
        gc.collect()  # the memory of former recordings must not be freed while a step is recorded
        try:
            with RECORDING, torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._loss = self._step(self._form, *self._inputs)
        except RuntimeError as error:
            reason = f"training runs without a CUDA graph, which is slower: {first_line(error)}"
            warnings.warn(reason, KgcalWarning, stacklevel=2)
        else:
            self._graph = graph
