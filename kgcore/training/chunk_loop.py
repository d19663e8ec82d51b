"""The losses of a step's chunks and the gradients of their rows, by one loop on the CPU, for models that have one."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kgcore.config import TrainConfig
from kgcore.loss_kernels import KERNELS
from kgcore.losses.base import Loss
from kgcore.models.base import Model, QueryModel
from kgcore.row_kernels import DOT, L1, L2
from kgcore.step_kernels import run_chunks
from kgcore.training.batches import Batch
from kgcore.training.tables import Tables

PARTS = 16  # of a step, so that threads finish together


class Started(NamedTuple):
    """A batch that jobs compute, and what they fill.

    losses         (b / c,) the loss of each chunk, without the penalty
    of_entities    (u, entity_width) the gradients of subjects, objects, replacements of objects, then of subjects
    of_predicates  (b, predicate_width)
    """

    jobs: list[Callable[[], None]]
    losses: Tensor
    of_entities: Tensor
    of_predicates: Tensor


class ChunkLoop:
    """The loop over the chunks of a step.

    kinds      the form of the queries, the comparison and the loss
    constants  the factor of the queries, the constants of the loss, the weight and the power of the LP penalty
    apart      whether each side has a loss of its own
    """

    def __init__(
        self, kinds: tuple[int, int, int], constants: tuple[float, float, float, float, float], apart: bool
    ) -> None:
        self._kinds, self._constants, self._apart = kinds, constants, apart
        self._of_entities = torch.empty(0, 0)  # most steps fill as many numbers: new memory for them takes time

    def start(self, tables: Tables, batch: Batch) -> Started:
        """Return the jobs of a batch. They fill the same numbers as those of the batch before it."""
        positives, drawn = np.ascontiguousarray(batch.positives), batch.corruptions
        objects, subjects = np.ascontiguousarray(drawn.objects), np.ascontiguousarray(drawn.subjects)
        entities, predicates = tables.entities.table, tables.predicates.table
        uses = 2 * len(positives) + objects.size + subjects.size
        losses = torch.zeros(len(objects), dtype=torch.float64)
        if self._of_entities.shape != (uses, entities.shape[1]):
            self._of_entities = torch.empty(uses, entities.shape[1])
        of_predicates = torch.empty(len(positives), predicates.shape[1])
        arguments = (
            self._kinds, self._constants, self._apart, entities.numpy(), predicates.numpy(), positives, objects,
            subjects, drawn.left_out, batch.count, losses.numpy(), self._of_entities.numpy(), of_predicates.numpy(),
        )  # fmt: skip
        part = -(-len(objects) // PARTS)

        def job(start: int) -> Callable[[], None]:
            return lambda: run_chunks(*arguments, start, min(start + part, len(objects)))

        jobs = [job(start) for start in range(0, len(objects), part)]
        return Started(jobs, losses, self._of_entities, of_predicates)


def chunk_loop(model: Model, loss: Loss, config: TrainConfig, rewarded: bool) -> ChunkLoop | None:
    """Return the loop of a model and a loss, or None if one of them or a setting needs another way."""
    kernel = loss.kernel()
    if not isinstance(model, QueryModel) or model.form is None or kernel is None or rewarded:
        return None
    kind = model.comparator.kind
    if kind not in (DOT, L1, L2) or (config.lp_weight and config.lp_power not in (2, 3)):
        return None
    loop, constants = kernel
    first, second = (*constants, 0.0, 0.0)[:2]
    numbers = (model.factor, first, second, config.lp_weight, config.lp_power)
    factor, first, second, weight, power = map(float, numbers)
    kinds = (model.form, kind, KERNELS.index(loop))
    return ChunkLoop(kinds, (factor, first, second, weight, power), config.sides_apart)
