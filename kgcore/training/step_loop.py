"""The losses of a step and the gradients of its rows, by one loop on the CPU, for models that have one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Ints, Triples
from kgcore.config import TrainConfig
from kgcore.loops.compiled import Array
from kgcore.loops.losses import LOOPS
from kgcore.loops.steps import Constants, Kinds, run_chunks, run_own
from kgcore.losses.base import Loss
from kgcore.models.base import Model, QueryModel
from kgcore.models.rows import NOTHING, Compared
from kgcore.training.batches import Batch
from kgcore.training.tables import Tables
from kgcore.workers import Job, parts

PARTS = 16  # of a step, so that threads finish together


class Started(NamedTuple):
    """A batch that jobs compute, and what they fill.

    losses         (b / c,) whose sum is the loss, without the penalty
    of_entities    (u, entity_width) the gradients of subjects and objects, and, if positives share corruptions, of
                   replacements of objects, then of subjects
    of_predicates  (b, predicate_width)
    compared       the comparisons with corruptions of their own, from which the gradients of these follow; NOTHING if
                   positives share corruptions
    """

    jobs: list[Job]
    losses: Tensor
    of_entities: Tensor
    of_predicates: Tensor
    compared: Compared


class StepLoop:
    """The loop over the chunks of a step, or over its positives if each has corruptions of its own.

    kinds, constants  see kgcore/loops/steps.py
    apart             whether each side has a loss of its own
    """

    def __init__(self, model: QueryModel, kinds: Kinds, constants: Constants, apart: bool) -> None:
        self._model, self._kinds, self._constants, self._apart = model, kinds, constants, apart
        self._of_entities = torch.empty(0, 0)  # most steps fill as many numbers: new memory for them takes time

    def start(self, tables: Tables, batch: Batch) -> Started:
        """Return the jobs of a batch. They fill the same numbers as those of the batch before it."""
        positives, drawn = np.ascontiguousarray(batch.positives), batch.corruptions
        objects, subjects = np.ascontiguousarray(drawn.objects), np.ascontiguousarray(drawn.subjects)
        entities, predicates = tables.entities.table, tables.predicates.table
        own, b, n, m = batch.chunk == 1, len(positives), objects.shape[1], subjects.shape[1]
        uses = 2 * b if own else 2 * b + objects.size + subjects.size
        if self._of_entities.shape != (uses, entities.shape[1]):
            self._of_entities = torch.empty(uses, entities.shape[1])
        losses, of_predicates = torch.zeros(len(objects), dtype=torch.float64), torch.empty(b, predicates.shape[1])
        given = (
            self._kinds, self._constants, self._apart, entities.numpy(), predicates.numpy(),
            *self._prepared(predicates, positives), positives, objects, subjects, drawn.left_out,
        )  # fmt: skip
        found = (losses.numpy(), self._of_entities.numpy(), of_predicates.numpy())
        run: Callable[..., None]
        arguments: tuple[Any, ...]
        if own:
            queries, scores = np.empty((2, b, entities.shape[1]), np.float32), np.empty(b * (n + m), np.float32)
            compared = Compared(queries.reshape(2 * b, -1), scores, np.empty_like(scores), (b, n))
            run, arguments = run_own, (*given, queries, scores, compared.gradient, *found)
        else:
            compared = NOTHING
            run, arguments = run_chunks, (*given, batch.count, *found)
        jobs = parts(run, len(objects), -(-len(objects) // PARTS), *arguments)
        return Started(jobs, losses, self._of_entities, of_predicates, compared)

    def _prepared(self, predicates: Tensor, positives: Triples) -> tuple[Array, Ints]:
        """Return predicates as the queries need them, and the row of each positive's predicate in them."""
        asked = np.ascontiguousarray(positives[:, 1])
        if len(predicates) > len(asked):  # in a step with few positives, most predicates are not needed
            predicates, asked = predicates.index_select(0, torch.from_numpy(asked)), np.arange(len(asked))
        return self._model.prepared(predicates)[1].numpy(), asked


def step_loop(model: Model, loss: Loss, config: TrainConfig, rewarded: bool) -> StepLoop | None:
    """Return the loop of a model and a loss, or None if one of them or a setting needs another way."""
    kernel = loss.kernel()
    if not isinstance(model, QueryModel) or model.form is None or kernel is None or rewarded:
        return None
    kind = model.comparator.kind
    if kind is None or (config.lp_weight and config.lp_power not in (2, 3)):
        return None
    loop, constants = kernel
    first, second = (*constants, 0.0, 0.0)[:2]
    numbers = (model.factor, first, second, config.lp_weight, config.lp_power)
    factor, first, second, weight, power = map(float, numbers)
    kinds = (model.form, kind, LOOPS.index(loop))
    return StepLoop(model, kinds, (factor, first, second, weight, power), config.sides_apart)
