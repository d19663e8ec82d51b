"""The training loop: epochs, callbacks and checkpoints, and the state that an epoch changes.

All random numbers come from one NumPy generator on the CPU, but for a GPU that draws the order and the corruptions of a
training itself, from the same distributions. Without these, a training has the same result on every device, up to
rounding. A checkpoint holds the tables, the state of their optimisers, the generator and the losses. On a CPU, a
training that continues from a checkpoint ends with the same bits as an uninterrupted one."""

import json
import math
import os
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from kgcore.arrays import Triples
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.losses.base import Loss
from kgcore.embed.models.base import Model
from kgcore.embed.models.bilinear import BilinearModel
from kgcore.embed.models.cohort import Cohort, draw_cohort
from kgcore.embed.models.trained import TrainedModel, folded
from kgcore.embed.optimisers.base import RowOptimiser
from kgcore.embed.training.batches import Batches, StepCorruptions, TrainingBatch
from kgcore.embed.training.objective import StepObjective
from kgcore.embed.training.step import Backend, Step, Tables
from kgcore.errors import FitError, InputError
from kgcore.registries import BACKENDS, LOSSES, MODELS, OPTIMISERS
from kgcore.registry import build

COMPILE_FROM_STEPS = 8_000  # compiling takes about 8 seconds and saves 1 to 3 ms per step


def built(config: TrainConfig) -> tuple[Model, Loss]:
    """Build the scoring function and the loss.

    Raises InputError if an option does not exist, or if dropout is set for a model that does not support it.
    """
    model = build(MODELS.get(config.model), config.model_options, config.k)
    if config.dropout and not model.can_drop:
        raise InputError(
            f"dropout is {config.dropout:g}: it must be 0 for {config.model}, "
            "because 0 is a meaningful value of its embeddings"
        )
    return model, build(LOSSES.get(config.loss), config.loss_options)


def batch_size(config: TrainConfig, by_predicate: bool) -> int:
    """Return the number of positives in a step.

    If corruptions depend on the predicate, the batch size is rounded down to a multiple of the chunk size, so that no
    chunk is cut in two. A batch size below the chunk size stays as it is.
    """
    if not by_predicate or config.batch_size < config.chunk_size:
        return config.batch_size
    return config.batch_size // config.chunk_size * config.chunk_size


def bytes_of_tables(entities: int, config: TrainConfig) -> int:
    """Return the bytes of the embeddings of so many entities and of the state of their optimiser, in float32."""
    model, _ = built(config)
    width = model.entity_width
    return 4 * entities * width + OPTIMISERS.get(config.optimiser).state_bytes(entities, width)


def check_memory(entities: int, config: TrainConfig, free: int, buckets: int = 1) -> None:
    """Raise InputError if the tables of so many entities need more than `free` bytes.

    buckets  with partitions: number of pairs of them that are in memory at a time
    """
    held = entities if config.partitions == 1 else min(entities, 2 * buckets * -(-entities // config.partitions))
    needed = bytes_of_tables(held, config)
    if needed <= free:
        return
    adagrad = config.replace(optimiser="adagrad")
    lean = bytes_of_tables(held, adagrad)
    advice = f"--optimiser adagrad needs {lean / 1e9:.1f} GB" if lean < needed else "a smaller --k needs less"
    if lean > free:  # the pairs may take half of the memory; triples and libraries need the rest
        parts = math.ceil(4 * buckets * bytes_of_tables(entities, adagrad) / free)
        advice += f", and --partitions {parts} --optimiser adagrad fits"
    raise InputError(
        f"the embeddings of {held:,} entities and the state of the optimiser {config.optimiser} need "
        f"{needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB of memory are free: {advice}"
    )


def with_inverses(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return a copy of the graph that also has the triple (o, p', s) for each triple (s, p, o).

    The inverse p' of predicate p has the id p + R, where R is the number of predicates. The test split is empty.

    Lacroix et al., ICML 2018, section 4.1.
    """
    count = len(graph.predicates)

    def both(triples: Triples) -> Triples:
        return np.concatenate([triples, triples[:, ::-1] + [0, count, 0]])

    def twice(split: Split) -> Split:
        confidences = None if split.confidences is None else np.tile(split.confidences, 2)
        return Split(both(split.triples), np.tile(split.labels, 2), confidences)

    return replace(
        graph,
        predicates=[*graph.predicates, *(f"{name}\u207b\u00b9" for name in graph.predicates)],
        train=twice(graph.train),
        valid=twice(graph.valid),
        test=Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0)),
        other_facts=both(graph.other_facts),
    )


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two epochs.

    tensors  the tables and their Adam moments, by name
    state    values that JSON can hold: the state of the random generator, and the loss of each epoch
    """

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint to a partial file in the same folder, and then rename that file to `path`.

    An interruption therefore never leaves an incomplete checkpoint at `path`. Memory: no copy of tensors on a CPU.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()}
    save_file(tensors, partial, metadata={"state": json.dumps(checkpoint.state)})
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Return the checkpoint in the file, or None if the file does not exist or is not a valid checkpoint."""
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return Checkpoint(tensors, json.loads(file.metadata()["state"]))
    except (FileNotFoundError, SafetensorError, KeyError, ValueError):
        return None


def worth_compiling(config: TrainConfig, steps: int, device: torch.device) -> bool:
    """Return whether compiled code saves more time in so many steps than compiling takes."""
    if device.type == "cpu" and issubclass(MODELS.get(config.model), BilinearModel):
        return False
    backend = backend_of(device)
    return steps >= COMPILE_FROM_STEPS and not (backend and config.model in backend.models)


def backend_of(device: torch.device) -> type[Backend] | None:
    """Return the backend of a device, if there is one."""
    return BACKENDS.get(device.type) if device.type in BACKENDS.names() else None


class TrainingState:
    """The tables, the generator, the corruption strategy and the losses so far.

    graph     the triples to train on; they include the inverse predicates if the settings ask for these
    compiled  whether to compile the objective. None: compile if this makes training with the model faster, and it has
              at least COMPILE_FROM_STEPS steps
    tables    the tables to train; None: tables with initial embeddings
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        loss: Loss,
        config: TrainConfig,
        device: torch.device,
        compiled: bool | None = None,
        tables: Tables | None = None,
    ) -> None:
        self._config, self._device = config, device
        self.rng = np.random.default_rng(config.seed)
        self.positives, self._confidences = graph.train.triples, graph.train.confidences
        self.corruptions = StepCorruptions(graph, config, self.rng)
        optimiser = OPTIMISERS.get(config.optimiser)
        self.tables = tables or Tables.drawn(graph, model, config, optimiser, device, self.rng)
        self._strategy = self.corruptions.strategy
        self._strategy.start(self.rng)
        self.losses: list[float] = []
        by_predicate = self.corruptions.by_predicate
        size, chunk = batch_size(config, by_predicate), config.chunk_size
        self.batches = Batches(self.positives[:, 1], size, chunk, by_predicate)
        self._steps = config.epochs * len(self.batches)
        rewarded = bool(self._strategy.tables)
        objective, backend, whole = StepObjective(model, loss, config, rewarded), backend_of(device), None
        if backend and not (compiled or rewarded or self._confidences is not None):
            whole = backend.step(config, model, loss, objective.evaluate, self.tables)
        self._whole_epoch = whole.epochs(graph, config, self.corruptions, self.batches, compiled) if whole else None
        if compiled is None:
            compiled = whole is None and worth_compiling(config, self._steps, device)
        shape = (size, min(chunk, size)) if compiled else None
        grouped = isinstance(model, BilinearModel) and not compiled and device.type == "cpu"
        self.step = Step(
            self.tables, self.corruptions, objective, config.dropout, self.rng, device, shape, grouped, whole
        )

    def run_epoch(self, epoch: int) -> float:
        """Train on each positive once, in a new order. Return the mean loss per positive. `epoch` counts from 1."""
        if self._whole_epoch:
            self.losses.append(self._whole_epoch(epoch) / len(self.positives))
            return self.losses[-1]
        if self._strategy.by_model:
            self._strategy.see(self.trained(folds=False))
        lost, steps = torch.zeros((), device=self._device), iter(self.batches.draw(self.rng))
        drawn = deque[TrainingBatch]()

        def draw() -> None:
            for rows, chunk in islice(steps, 1):
                confidences = None if self._confidences is None else self._confidences[rows]
                drawn.append(self.step.draw(self.positives[rows], chunk, confidences))

        draw()
        number = 1 + (epoch - 1) * len(self.batches)
        while drawn:
            # the step size falls linearly from the learning rate to `learning_rate_end` times the learning rate
            fallen = (1 - self._config.learning_rate_end) * (number - 1) / self._steps
            batch, rate = drawn.popleft(), self._config.learning_rate * (1 - fallen)
            if self._strategy.by_model:  # it reads the tables that a step changes
                lost += self.step.run(batch, number, rate)
                draw()
            else:
                lost += self.step.run(batch, number, rate, draw)
            number += 1
        self.losses.append(float(lost) / len(self.positives))
        return self.losses[-1]

    def trained(self, folds: bool = True) -> TrainedModel:
        """Return the current model, on the CPU.

        folds  affects only a model with inverse predicates. True: each of the R predicates has one row with its own
               embedding, then the embedding of its inverse, as `BothWays` needs it. False: the 2R predicates have
               separate rows, as in training
        """
        config, embeddings = self._config, self.tables.embeddings()
        inverse = config.inverse_relations and folds
        options = dict(config.model_options)
        return TrainedModel(config.model, config.k, folded(embeddings) if inverse else embeddings, options, inverse)

    def _all_tables(self) -> dict[str, RowOptimiser]:
        """Return name -> table, for the tables of the model and the tables that the corruption strategy learns."""
        learnt = {f"corruptions.{name}": table for name, table in self._strategy.tables.items()}
        return self.tables.by_name() | learnt

    def save(self) -> Checkpoint:
        """Return a checkpoint of the state. Call this between two epochs."""
        tensors = {
            f"{name}.{part}": tensor
            for name, table in self._all_tables().items()
            for part, tensor in table.tensors().items()
        }
        return Checkpoint(tensors, {"losses": self.losses, "generator": self.rng.bit_generator.state})

    def load(self, checkpoint: Checkpoint | None) -> int:
        """Take over the state of a checkpoint. Return the number of epochs already trained, 0 without a checkpoint."""
        if checkpoint is None:
            return 0
        tables = self._all_tables()
        for name, tensor in checkpoint.tensors.items():
            table, part = name.rsplit(".", 1)
            getattr(tables[table], part).copy_(tensor)
        self.losses = list(checkpoint.state["losses"])
        generator: Any = checkpoint.state["generator"]
        self.rng.bit_generator.state = generator
        return len(self.losses)


def cohort_of(graph: KnowledgeGraph, config: TrainConfig) -> Cohort | None:
    """Return the cohort that normalises the scores of a model. None: the settings ask for none."""
    if not config.cohort_weight:
        return None
    rng = np.random.default_rng(config.seed)  # a separate one, so that training is the same without a cohort
    return draw_cohort(graph, config.cohort_size, config.cohort_weight, config.cohort_temperature, rng)


def check_loss(loss: float, epoch: int) -> None:
    """Raise FitError if the mean loss of an epoch is not a finite number."""
    if not np.isfinite(loss):
        raise FitError(f"the training loss is {loss} after epoch {epoch}: lower the learning rate")


@dataclass(frozen=True)
class Training:
    """The result of a training.

    losses      mean loss per positive, for each epoch
    resumed_at  number of epochs already trained in the checkpoint that the training continued; 0 without a checkpoint
    """

    model: TrainedModel
    losses: list[float]
    resumed_at: int


def train(
    graph: KnowledgeGraph,
    config: TrainConfig,
    device: torch.device,
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 10.0,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
    compiled: bool | None = None,
    on_model: Callable[[int, TrainedModel], None] = lambda epoch, model: None,
    model_epochs: Collection[int] = (),
    until: int | None = None,
) -> Training:
    """Train a model on the graph's training split, in one memory: `partitions` of the settings is not used.

    checkpoint          file of the checkpoint. If it exists, training continues from it. Training writes it at the end
                        of an epoch if at least `checkpoint_seconds` seconds have passed since the last write
    on_epoch(epoch, l)  called after every epoch with its number, from 1, and the mean loss l of a positive
    compiled            whether to compile the computation of the loss. None: compile if there are enough steps to save
                        more time than compiling takes
    on_model(epoch, m)  called with the current model m after each epoch in `model_epochs`. Later epochs change the
                        tables of m
    model_epochs        numbers of the epochs, from 1, after which `on_model` is called
    until               epoch after which the training stops, and from which another call goes on: the checkpoint is
                        written then. The learning rates remain those of all epochs. None: train all epochs

    An exception from a callback ends the training. Raises FitError if the loss is not a finite number. Raises
    InputError if an option does not exist, or if dropout is set for a model that does not support it.
    """
    model, loss = built(config)
    cohort = cohort_of(graph, config)
    graph = with_inverses(graph) if config.inverse_relations else graph
    state = TrainingState(graph, model, loss, config, device, compiled)
    resumed_at = state.load(read_checkpoint(checkpoint)) if checkpoint else 0
    written = time.monotonic()
    last = config.epochs if until is None else min(until, config.epochs)
    for epoch in range(resumed_at + 1, last + 1):
        mean_loss = state.run_epoch(epoch)
        check_loss(mean_loss, epoch)
        on_epoch(epoch, mean_loss)
        if epoch in model_epochs:
            on_model(epoch, replace(state.trained(), cohort=cohort))
        if checkpoint and epoch < config.epochs and time.monotonic() - written >= checkpoint_seconds:
            write_checkpoint(checkpoint, state.save())
            written = time.monotonic()
    if checkpoint and until is not None and resumed_at < last:
        write_checkpoint(checkpoint, state.save())
    trained = state.trained()
    tables = trained.embeddings
    if not all(table.isfinite().all() for table in (tables.entities, tables.predicates, *tables.shared.values())):
        raise FitError(f"the embeddings are no finite numbers after epoch {last}: lower the learning rate")
    return Training(replace(trained, cohort=cohort), state.losses, resumed_at)
