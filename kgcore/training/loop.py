"""The training loop: positives in shuffled batches, chunk-shared corruptions, only the touched rows updated.

One step on b positives in chunks of c that share eta corruptions, of one predicate where the corruptions depend on it,
gathers the distinct embeddings it needs into a small table, takes the gradient with respect to that table, and gives it
to an Adam that updates those rows alone. Where the model encodes, these are all rows, and the gradient runs through the
encoding.
All randomness is one NumPy generator on the CPU, so a run is the same on every device up to rounding, and a
checkpoint of the tables, the moments and the generator continues it, on a CPU to the bit.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kgcore.adam import RowAdam
from kgcore.arrays import Floats, Ints, Triples
from kgcore.compiling import compile_if_possible
from kgcore.config import TrainConfig
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.losses.base import Loss
from kgcore.models.base import Embeddings, GraphModel, Model
from kgcore.models.inverse import folded
from kgcore.models.trained import TrainedModel
from kgcore.training.batches import Batches
from kgcore.training.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from kgcore.training.corruptions import StepCorruptions
from kgcore.training.inverse import with_inverses
from kgcore.training.regulariser import dropout, lp
from kgcore.training.setup import batch_size, built, cohort_of

COMPILE_FROM_STEPS = 8_000  # compiling takes about 8 seconds and saves 1 to 3 ms a step
NO_CORRUPTION = -1e4  # the score of a corruption that does not count: no loss sees it, nor its gradient


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
    on_model: Callable[[int, TrainedModel], None] = lambda epoch, model: None,
    model_epochs: Collection[int] = (),
) -> Training:
    """Train a model on the graph's training split.

    checkpoint          file to resume from, and to write at most every `checkpoint_seconds`
    on_epoch(epoch, l)  called after every epoch, from 1, with the mean loss a positive
    compiled            whether to compile the loss of the gathered rows; None = where the steps are enough to repay it
    on_model(epoch, m)  called after each of `model_epochs` with the model as it is, which goes on changing afterwards

    Either callback ends the training by raising. Raises FitError when the loss is no longer a finite number, InputError
    for dropout where the model has no use for it.
    """
    model, loss = built(config)
    cohort = cohort_of(graph, config)
    graph = with_inverses(graph) if config.inverse_relations else graph
    state = _State(graph, model, loss, config, device, compiled)
    resumed_at = state.load(read_checkpoint(checkpoint)) if checkpoint else 0
    written = time.monotonic()
    for epoch in range(resumed_at + 1, config.epochs + 1):
        mean_loss = state.run_epoch(epoch)
        if not np.isfinite(mean_loss):
            raise FitError(f"the training loss is {mean_loss} after epoch {epoch}: lower the learning rate")
        on_epoch(epoch, mean_loss)
        if epoch in model_epochs:
            on_model(epoch, replace(state.trained(), cohort=cohort))
        if checkpoint and epoch < config.epochs and time.monotonic() - written >= checkpoint_seconds:
            write_checkpoint(checkpoint, state.save())
            written = time.monotonic()
    return Training(replace(state.trained(), cohort=cohort), state.losses, resumed_at)


class _State:
    """Everything that changes while training."""

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        loss: Loss,
        config: TrainConfig,
        device: torch.device,
        compiled: bool | None,
    ) -> None:
        self.model, self.loss, self.config, self.device = model, loss, config, device
        self.rng = np.random.default_rng(config.seed)
        self.positives = graph.train.triples
        self.corruptions = StepCorruptions(graph, config, self.rng)
        self.strategy = self.corruptions.strategy
        self.encoder = model if isinstance(model, GraphModel) else None
        self.facts = torch.from_numpy(self.positives).to(device) if self.encoder else None  # what it encodes from

        def table(start: Floats) -> RowAdam:
            return RowAdam(torch.from_numpy(start.astype(np.float32)).to(device))

        def uniform(rows: int, width: int, scale: float) -> Floats:
            return self.rng.uniform(-scale, scale, (rows, width))

        predicate_scale = model.scale if model.predicate_scale is None else model.predicate_scale
        times = config.initial_scale
        self.entities = table(uniform(len(graph.entities), model.entity_width, times * model.scale))
        self.predicates = table(uniform(len(graph.predicates), model.predicate_width, times * predicate_scale))
        self.shared = {name: table(start) for name, start in model.initial_shared(self.rng).items()}
        self.strategy.start(self.rng)
        self.losses: list[float] = []
        by_predicate = self.corruptions.by_predicate
        size = batch_size(config, by_predicate)
        self.batches = Batches(self.positives[:, 1], size, config.chunk_size, by_predicate)
        if compiled is None:
            compiled = config.epochs * len(self.batches) >= COMPILE_FROM_STEPS
        self.dense = compile_if_possible(self._dense_loss, "training") if compiled else self._dense_loss

    def trained(self, folds: bool = True) -> TrainedModel:
        """The model as it is now, on the CPU; where predicates have inverses, as `BothWays` reads it, or, without
        `folds`, with all 2R predicates as they are trained."""
        config, tables = self.config, self.embeddings()
        inverse = config.inverse_relations and folds
        options = dict(config.model_options)
        return TrainedModel(config.model, config.k, folded(tables) if inverse else tables, options, inverse)

    def embeddings(self) -> Embeddings:
        """The tables as they are now, encoded, on the CPU."""
        shared = {name: table.table for name, table in self.shared.items()}
        with torch.no_grad():
            tables = self._encoded(shared, self.entities.table, self.predicates.table)
        return Embeddings(*tables, shared).to(torch.device("cpu"))

    def run_epoch(self, epoch: int) -> float:
        """One pass over the positives in a new order; the mean loss a positive."""
        config, step, total = self.config, (epoch - 1) * len(self.batches), self.config.epochs * len(self.batches)
        if self.strategy.by_model:
            self.strategy.see(self.trained(folds=False))
        lost = torch.zeros((), device=self.device)
        for rows, chunk in self.batches.draw(self.rng):
            step += 1
            fallen = (1 - config.learning_rate_end) * (step - 1) / total
            lost += self._step(self.positives[rows], chunk, step, config.learning_rate * (1 - fallen))
        self.losses.append(float(lost) / len(self.positives))
        return self.losses[-1]

    def _step(self, batch: Triples, chunk: int, step: int, learning_rate: float) -> Tensor:
        count, one_shape = len(batch), (self.batches.size, self.batches.chunk) == (len(batch), chunk)
        batch, chunk = _chunked(batch, chunk)
        in_subject, in_object, left_out = self.corruptions.draw(batch, chunk)
        ids = np.concatenate([batch[:, 0], batch[:, 2], in_subject.ravel(), in_object.ravel()])
        rows, places = self._rows(ids, self.entities)
        used, relations = self._rows(batch[:, 1], self.predicates)
        entities = self.entities.table.index_select(0, rows).requires_grad_()
        predicates = self.predicates.table.index_select(0, used).requires_grad_()
        shared = {name: table.table.clone().requires_grad_() for name, table in self.shared.items()}

        known_entities, known_predicates = self._encoded(shared, entities, predicates)
        p, so = known_predicates.index_select(0, relations), places[: 2 * len(batch)]
        thinned = dropout(known_entities, self.config.dropout, self.rng)
        gathered = thinned.index_select(0, places)
        whole = gathered[: len(so)] if thinned is known_entities else known_entities.index_select(0, so)
        sizes = [len(batch), len(batch), in_subject.size, in_object.size]
        spared = torch.from_numpy(left_out).to(self.device)
        dense = self.dense if one_shape else self._dense_loss  # which is the one that is compiled
        loss, penalty, rewards = dense(shared, p, torch.split(gathered, sizes), whole, spared, chunk, count)
        gradients = torch.autograd.grad(loss + penalty, (entities, predicates, *shared.values()))
        self.entities.step(rows, gradients[0], step, learning_rate)
        self.predicates.step(used, gradients[1], step, learning_rate)
        for table, gradient in zip(self.shared.values(), gradients[2:], strict=True):
            table.step(torch.arange(len(gradient), device=self.device), gradient, step, learning_rate)
        if rewards is not None:
            on_object, on_subject = np.split(rewards.cpu().numpy(), [in_object.shape[1]], axis=1)
            for column, drawn in ((OBJECT, on_object), (SUBJECT, on_subject)):
                self.strategy.learn(column, drawn, step)
        return loss.detach()

    def _rows(self, ids: Ints, table: RowAdam) -> tuple[Tensor, Tensor]:
        """The rows a step works on, distinct, and where in them the ids are; all rows where the model encodes."""
        wanted = torch.from_numpy(ids).to(self.device)
        if self.encoder:
            return torch.arange(len(table.table), device=self.device), wanted
        rows, places = torch.unique(wanted, return_inverse=True)
        return rows, places

    def _encoded(self, shared: dict[str, Tensor], entities: Tensor, predicates: Tensor) -> tuple[Tensor, Tensor]:
        """What the model scores: the tables themselves unless it encodes them."""
        if self.encoder is None or self.facts is None:
            return entities, predicates
        return self.encoder.bound(shared).encode(entities, predicates, self.facts)

    def _dense_loss(
        self,
        shared: dict[str, Tensor],
        p: Tensor,
        gathered: tuple[Tensor, ...],
        whole: Tensor,
        spared: Tensor,
        chunk: int,
        count: int,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """The loss of the first `count` positives, for the rest only fill up the last chunk, and their penalty; for a
        strategy that learns, every stand-in's mean score in its chunk, where it is not spared.

        gathered  the embeddings of subjects, objects, and what stands in for subjects and for objects
        whole     the subjects' and objects' without dropout, one below the other
        """
        s, o, stand_in_s, stand_in_o = gathered
        model = self.model.bound(shared)
        s_chunks, p_chunks, o_chunks = (rows.view(-1, chunk, rows.shape[-1]) for rows in (s, p, o))
        blocks = []
        if len(stand_in_o):
            candidates = stand_in_o.view(len(o_chunks), -1, o.shape[-1])
            blocks.append(model.score_objects(s_chunks, p_chunks, candidates).reshape(len(s), -1))
        if len(stand_in_s):
            candidates = stand_in_s.view(len(s_chunks), -1, s.shape[-1])
            blocks.append(model.score_subjects(p_chunks, o_chunks, candidates).reshape(len(s), -1))
        corrupted = torch.cat(blocks, -1).masked_fill(spared, NO_CORRUPTION)
        rewards = _mean_scores(corrupted.detach(), spared, chunk) if self.strategy.tables else None
        kept, positives = corrupted[:count], model.score(s, p, o)[:count]
        sides = torch.split(kept, [block.shape[-1] for block in blocks], -1) if self.config.sides_apart else [kept]
        loss = torch.stack([self.loss(positives, side) for side in sides]).sum()
        if not self.config.lp_weight:
            return loss, torch.zeros_like(loss), rewards
        positive = torch.cat([*torch.split(whole, len(s)), p], -1)[:count]
        return loss, self.config.lp_weight * lp(positive, self.config.lp_power), rewards

    def _tables(self) -> dict[str, RowAdam]:
        shared = {f"shared.{name}": table for name, table in self.shared.items()}
        learnt = {f"corruptions.{name}": table for name, table in self.strategy.tables.items()}
        return {"entities": self.entities, "predicates": self.predicates} | shared | learnt

    def save(self) -> Checkpoint:
        """The state after a whole epoch."""
        tensors = {
            f"{name}.{part}": getattr(table, part)
            for name, table in self._tables().items()
            for part in ("table", "first", "second")
        }
        return Checkpoint(tensors, {"losses": self.losses, "generator": self.rng.bit_generator.state})

    def load(self, checkpoint: Checkpoint | None) -> int:
        """Take over a saved state; the epochs it has done, 0 without one."""
        if checkpoint is None:
            return 0
        tables = self._tables()
        for name, tensor in checkpoint.tensors.items():
            table, part = name.rsplit(".", 1)
            getattr(tables[table], part).copy_(tensor)
        self.losses = list(checkpoint.state["losses"])
        generator: Any = checkpoint.state["generator"]
        self.rng.bit_generator.state = generator
        return len(self.losses)


def _mean_scores(corrupted: Tensor, spared: Tensor, chunk: int) -> Tensor:
    """(b, eta) -> (b / chunk, eta): every stand-in's mean score with the positives it counts for, 0 without any."""
    scores, counted = (part.view(-1, chunk, spared.shape[1]) for part in (corrupted.masked_fill(spared, 0), ~spared))
    return scores.sum(1) / counted.sum(1).clamp(min=1)


def _chunked(batch: Triples, chunk: int) -> tuple[Triples, int]:
    """The batch in whole chunks: a short last chunk is filled up, with rows whose loss is not taken."""
    chunk = min(chunk, len(batch))
    missing = -len(batch) % chunk
    return (np.concatenate([batch, np.repeat(batch[-1:], missing, axis=0)]) if missing else batch), chunk
