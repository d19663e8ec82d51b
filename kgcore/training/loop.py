"""The training loop: positives in shuffled batches, chunk-shared corruptions, only the touched rows updated.

One step on b positives in chunks of c that share eta corruptions gathers the distinct embeddings it needs into a
small table, takes the gradient with respect to that table, and gives it to an Adam that updates those rows alone.
All randomness is one NumPy generator on the CPU, so a run is the same on every device up to rounding, and a
checkpoint of the tables, the moments and the generator continues it to the bit.
"""

import time
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
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.losses import LOSSES
from kgcore.losses.base import Loss
from kgcore.models import MODELS
from kgcore.models.base import Embeddings, Model, TrainedModel
from kgcore.registry import build
from kgcore.training.adam import RowAdam
from kgcore.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


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
) -> Training:
    """Train a model on the graph's training split.

    checkpoint          file to resume from, and to write at most every `checkpoint_seconds`
    on_epoch(epoch, l)  called after every epoch, from 1, with the mean loss a positive

    Raises FitError when the loss is no longer a finite number.
    """
    model = build(MODELS.get(config.model), config.model_options, config.k)
    state = _State(graph, model, build(LOSSES.get(config.loss), config.loss_options), config, device)
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
        self, graph: KnowledgeGraph, model: Model, loss: Loss, config: TrainConfig, device: torch.device
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
        self.steps_per_epoch = -(-len(self.positives) // config.batch_size)

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
        loss = self.loss(*self._scores(s, p, o, stand_in_s, stand_in_o, chunk))
        by_entities, by_predicates = torch.autograd.grad(loss, (entities, predicates))
        self.entities.step(rows, by_entities, step, learning_rate)
        self.predicates.step(used, by_predicates, step, learning_rate)
        return loss.detach()

    def _scores(
        self, s: Tensor, p: Tensor, o: Tensor, stand_in_s: Tensor, stand_in_o: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor]:
        """Scores of the positives (b,) and of their corruptions (b, eta)."""
        model, width = self.model, s.shape[-1]
        object_query = model.object_query(s, p)
        positives = model.comparator.pairs(object_query, o)
        blocks = []
        for query, stand_ins in ((object_query, stand_in_o), (model.subject_query(p, o), stand_in_s)):
            if len(stand_ins):
                chunks = query.view(-1, chunk, width)
                compared = model.comparator.outer(chunks, stand_ins.view(len(chunks), -1, width))
                blocks.append(compared.reshape(len(s), -1))
        return positives, torch.cat(blocks, -1)

    def _chunked(self, batch: Triples) -> tuple[Triples, int]:
        """The batch in whole chunks: a short last chunk is filled up from the batch's own start."""
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
