"""The training loop: epochs, callbacks and checkpoints."""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from kgcore.config import TrainConfig
from kgcore.errors import FitError
from kgcore.graph import KnowledgeGraph
from kgcore.models.trained import TrainedModel
from kgcore.training.checkpoint import read_checkpoint, write_checkpoint
from kgcore.training.setup import built, cohort_of, with_inverses
from kgcore.training.state import TrainingState


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
    """Train a model on the graph's training split.

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
        if not np.isfinite(mean_loss):
            raise FitError(f"the training loss is {mean_loss} after epoch {epoch}: lower the learning rate")
        on_epoch(epoch, mean_loss)
        if epoch in model_epochs:
            on_model(epoch, replace(state.trained(), cohort=cohort))
        if checkpoint and epoch < config.epochs and time.monotonic() - written >= checkpoint_seconds:
            write_checkpoint(checkpoint, state.save())
            written = time.monotonic()
    if checkpoint and until is not None and resumed_at < last:
        write_checkpoint(checkpoint, state.save())
    return Training(replace(state.trained(), cohort=cohort), state.losses, resumed_at)
