"""The training loop: positives in shuffled batches, chunk-shared corruptions, only the touched rows updated.

One step on b positives in chunks of c that share eta corruptions gathers the distinct embeddings it needs into a
small table, takes the gradient with respect to that table, and gives it to an Adam that updates those rows alone.
All randomness is one NumPy generator on the CPU, so a run is the same on every device up to rounding, and a
checkpoint of the tables, the moments and the generator continues it, on a CPU to the bit.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Triples
from kgcore.config import TrainConfig
from kgcore.corruptions import STRATEGIES
from kgcore.corruptions.base import OBJECT, SUBJECT, Strategy
from kgcore.errors import FitError, KgcalWarning
from kgcore.graph import KnowledgeGraph
from kgcore.losses import LOSSES
from kgcore.losses.base import Loss
from kgcore.models import MODELS
from kgcore.models.base import Embeddings, Model, TrainedModel
from kgcore.registry import build
from kgcore.training.adam import RowAdam
from kgcore.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

COMPILE_FROM_STEPS = 8_000  # compiling takes about 8 seconds and saves 1 to 3 ms a step


@dataclass(frozen=True)
class Training:
    """A finished training: the model, the mean loss a positive of every epoch, and the epoch it was resumed at
    (0 = from the start)."""

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
) -> Training:
    """Train a model on the graph's training split.

    checkpoint          file to resume from, and to write at most every `checkpoint_seconds`
    on_epoch(epoch, l)  called after every epoch, from 1, with the mean loss a positive
    compiled            whether to compile the loss of the gathered rows; None = where the steps are enough to repay it

    Raises FitError when the loss is no longer a finite number.
    """
    model = build(MODELS.get(config.model), config.model_options, config.k)
    if compiled is None:
        compiled = config.epochs * _steps(graph, config) >= COMPILE_FROM_STEPS
    state = _State(graph, model, build(LOSSES.get(config.loss), config.loss_options), config, device, compiled)
    resumed_at = state.load(read_checkpoint(checkpoint)) if checkpoint else 0
    written = time.monotonic()
    for epoch in range(resumed_at + 1, config.epochs + 1):
        loss = state.run_epoch(epoch)
        if not np.isfinite(loss):
            raise FitError(f"the training loss is {loss} after epoch {epoch}: lower the learning rate")
        on_epoch(epoch, loss)
        if checkpoint and epoch < config.epochs and time.monotonic() - written >= checkpoint_seconds:
            write_checkpoint(checkpoint, state.save())
            written = time.monotonic()
    tables = Embeddings(state.entities.table.cpu(), state.predicates.table.cpu())
    trained = TrainedModel(config.model, config.k, tables, dict(config.model_options))
    return Training(trained, state.losses, resumed_at)


class _State:
    """Everything that changes while training."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        loss: Loss,
        config: TrainConfig,
        device: torch.device,
        compiled: bool,
    ) -> None:
        self.model, self.loss, self.config, self.device = model, loss, config, device
        self.rng = np.random.default_rng(config.seed)
        self.positives = graph.train.triples
        self.strategy: Strategy = STRATEGIES.get("uniform")(graph)

        def table(rows: int, width: int) -> RowAdam:
            start = self.rng.uniform(-model.scale, model.scale, (rows, width)).astype(np.float32)
            return RowAdam(torch.from_numpy(start).to(device))

        self.entities = table(len(graph.entities), model.entity_width)
        self.predicates = table(len(graph.predicates), model.predicate_width)
        self.losses: list[float] = []
        self.dense = _compiled(self._dense_loss) if compiled else self._dense_loss
        self.steps_per_epoch = _steps(graph, config)

    def run_epoch(self, epoch: int) -> float:
        """One pass over the positives in a new order; the mean loss a positive."""
        config, step = self.config, (epoch - 1) * self.steps_per_epoch
        total = config.epochs * self.steps_per_epoch
        order, lost = self.rng.permutation(len(self.positives)), torch.zeros((), device=self.device)
        for start in range(0, len(order), config.batch_size):
            batch = self.positives[order[start : start + config.batch_size]]
            step += 1
            lost += self._step(batch, step, config.learning_rate * (1 - (step - 1) / total))
        self.losses.append(float(lost) / len(order))
        return self.losses[-1]

    def _step(self, batch: Triples, step: int, learning_rate: float) -> Tensor:
        count = len(batch)
        batch, chunk = self._chunked(batch)
        in_subject, in_object = self._corruptions(batch[::chunk])
        ids = np.concatenate([batch[:, 0], batch[:, 2], in_subject.ravel(), in_object.ravel()])
        rows, places = torch.unique(torch.from_numpy(ids).to(self.device), return_inverse=True)
        used, relations = torch.unique(torch.from_numpy(batch[:, 1]).to(self.device), return_inverse=True)
        entities = self.entities.table.index_select(0, rows).requires_grad_()
        predicates = self.predicates.table.index_select(0, used).requires_grad_()

        gathered = entities.index_select(0, places)
        s, o, stand_in_s, stand_in_o = torch.split(gathered, [len(batch), len(batch), in_subject.size, in_object.size])
        p = predicates.index_select(0, relations)
        dense = self.dense if count == self.config.batch_size else self._dense_loss  # one shape is compiled
        loss = dense(s, p, o, stand_in_s, stand_in_o, chunk, count)
        by_entities, by_predicates = torch.autograd.grad(loss, (entities, predicates))
        self.entities.step(rows, by_entities, step, learning_rate)
        self.predicates.step(used, by_predicates, step, learning_rate)
        return loss.detach()

    def _dense_loss(
        self, s: Tensor, p: Tensor, o: Tensor, stand_in_s: Tensor, stand_in_o: Tensor, chunk: int, count: int
    ) -> Tensor:
        """The loss of the first `count` positives: the rest only fill up the last chunk."""
        model, width = self.model, s.shape[-1]
        object_query = model.object_query(s, p)
        positives = model.comparator.pairs(object_query, o)
        blocks = []
        for query, stand_ins in ((object_query, stand_in_o), (model.subject_query(p, o), stand_in_s)):
            if len(stand_ins):
                chunks = query.view(-1, chunk, width)
                compared = model.comparator.outer(chunks, stand_ins.view(len(chunks), -1, width))
                blocks.append(compared.reshape(len(s), -1))
        return self.loss(positives[:count], torch.cat(blocks, -1)[:count])

    def _chunked(self, batch: Triples) -> tuple[Triples, int]:
        """The batch in whole chunks: a short last chunk is filled up, with rows whose loss is not taken."""
        chunk = min(self.config.chunk_size, len(batch))
        missing = -len(batch) % chunk
        return (np.concatenate([batch, batch[:missing]]) if missing else batch), chunk

    def _corruptions(self, leaders: Triples) -> tuple[Triples, Triples]:
        """For each chunk's first positive, eta entities: those that replace subjects and those that replace objects.

        With eta odd the extra one falls on a side by the toss of a coin a step.
        """
        eta = self.config.eta
        on_subject = eta // 2 + (int(self.rng.integers(2)) if eta % 2 else 0)
        return (
            self.strategy.draw(leaders, SUBJECT, on_subject, self.rng),
            self.strategy.draw(leaders, OBJECT, eta - on_subject, self.rng),
        )

    def save(self) -> Checkpoint:
        """The state after a whole epoch."""
        tables = {"entities": self.entities, "predicates": self.predicates}
        tensors = {
            f"{name}.{part}": getattr(table, part)
            for name, table in tables.items()
            for part in ("table", "first", "second")
        }
        return Checkpoint(tensors, {"losses": self.losses, "generator": self.rng.bit_generator.state})

    def load(self, checkpoint: Checkpoint | None) -> int:
        """Take over a saved state; the epochs it has done, 0 without one."""
        if checkpoint is None:
            return 0
        for name, tensor in checkpoint.tensors.items():
            table, part = name.split(".")
            getattr(getattr(self, table), part).copy_(tensor)
        self.losses = list(checkpoint.state["losses"])
        generator: Any = checkpoint.state["generator"]
        self.rng.bit_generator.state = generator
        return len(self.losses)


def _steps(graph: KnowledgeGraph, config: TrainConfig) -> int:
    """Steps an epoch."""
    return -(-len(graph.train) // config.batch_size)


def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function through torch.compile; as it is, with one warning, where compiling fails for want of a compiler."""
    compiled, failed = torch.compile(function, dynamic=False), False

    def call(*args: Any) -> Tensor:
        nonlocal failed
        if not failed:
            try:
                loss: Tensor = compiled(*args)
                return loss
            except Exception as error:  # what a missing or broken compiler raises is not part of PyTorch's interface
                failed = True
                reason = str(error).strip().splitlines()[0]
                warnings.warn(
                    f"training goes on without torch.compile, more slowly: {reason}", KgcalWarning, stacklevel=2
                )
        return function(*args)

    return call
