"""The state of a training: its tables, its random generator and its losses. An epoch changes all of them.

All random numbers come from one NumPy generator on the CPU. Therefore a training has the same result on every device,
up to rounding. A checkpoint holds the tables, the state of their optimisers, the generator and the losses. On a CPU, a
training that continues from a checkpoint ends with the same bits as an uninterrupted one.
"""

from collections import deque
from itertools import islice
from typing import Any

import numpy as np
import torch

from kgcore.config import TrainConfig
from kgcore.graph import KnowledgeGraph
from kgcore.losses.base import Loss
from kgcore.models.base import Model
from kgcore.models.bilinear import BilinearModel
from kgcore.models.inverse import folded
from kgcore.models.trained import TrainedModel
from kgcore.optimisers.base import RowOptimiser
from kgcore.registries import MODELS, OPTIMISERS
from kgcore.training.batches import Batches, TrainingBatch
from kgcore.training.checkpoint import Checkpoint
from kgcore.training.corruptions import StepCorruptions
from kgcore.training.objective import StepObjective
from kgcore.training.setup import batch_size
from kgcore.training.step import Step
from kgcore.training.tables import Tables
from kgcore.wings.fast_cpu.training import FORMS, fast_step
from kgcore.wings.fast_gpu import recorded_step

COMPILE_FROM_STEPS = 8_000  # compiling takes about 8 seconds and saves 1 to 3 ms per step


def worth_compiling(config: TrainConfig, steps: int, device: torch.device) -> bool:
    """Return whether compiled code saves more time in so many steps than compiling takes."""
    as_fast = config.model in FORMS or issubclass(MODELS.get(config.model), BilinearModel)
    return steps >= COMPILE_FROM_STEPS and not (as_fast and device.type == "cpu")


class TrainingState:
    """The tables, the generator, the corruption strategy and the losses so far.

    graph     the triples to train on; they include the inverse predicates if the settings ask for these
    compiled  whether to compile the objective. None: compile if this makes training with the model faster, and it has
              at least COMPILE_FROM_STEPS steps
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        model: Model,
        loss: Loss,
        config: TrainConfig,
        device: torch.device,
        compiled: bool | None = None,
    ) -> None:
        self._config, self._device = config, device
        self.rng = np.random.default_rng(config.seed)
        self.positives, self._confidences = graph.train.triples, graph.train.confidences
        self.corruptions = StepCorruptions(graph, config, self.rng)
        optimiser = OPTIMISERS.get(config.optimiser)
        self.tables = Tables(graph, model, config.initial_scale, optimiser, device, self.rng)
        self._strategy = self.corruptions.strategy
        self._strategy.start(self.rng)
        self.losses: list[float] = []
        by_predicate = self.corruptions.by_predicate
        size, chunk = batch_size(config, by_predicate), config.chunk_size
        self.batches = Batches(self.positives[:, 1], size, chunk, by_predicate)
        self._steps = config.epochs * len(self.batches)
        rewarded, plain = bool(self._strategy.tables), self._confidences is not None
        threads, (entities, predicates) = torch.get_num_threads(), (self.tables.entities, self.tables.predicates)
        fast = None if compiled or rewarded or plain else fast_step(config, model, loss, entities, predicates, threads)
        objective = StepObjective(model, loss, config, rewarded)
        recorded = None
        if not (compiled or rewarded or plain):
            recorded = recorded_step(config, model, objective.evaluate, self.tables, device)
        if compiled is None:
            compiled = fast is None and recorded is None and worth_compiling(config, self._steps, device)
        shape = (size, min(chunk, size)) if compiled else None
        grouped = isinstance(model, BilinearModel) and not compiled and device.type == "cpu"
        self.step = Step(
            self.tables, self.corruptions, objective, config.dropout, self.rng, device, shape, grouped, fast, recorded
        )

    def run_epoch(self, epoch: int) -> float:
        """Train on each positive once, in a new order. Return the mean loss per positive. `epoch` counts from 1."""
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
            batch, rate = drawn.popleft(), self._learning_rate(number)
            if self._strategy.by_model:  # it reads the tables that a step changes
                lost += self.step.run(batch, number, rate)
                draw()
            else:
                lost += self.step.run(batch, number, rate, draw)
            number += 1
        self.losses.append(float(lost) / len(self.positives))
        return self.losses[-1]

    def _learning_rate(self, number: int) -> float:
        """Return the step size in step `number`, which counts from 1.

        The step size falls linearly from the learning rate to `learning_rate_end` times the learning rate.
        """
        fallen = (1 - self._config.learning_rate_end) * (number - 1) / self._steps
        return self._config.learning_rate * (1 - fallen)

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
