"""One training step: draw the corruptions, gather the rows, compute the loss and its gradient, update the rows.

A step works on b positives in chunks of c that share their corruptions. It copies the embeddings that it needs into a
small table, each once, and computes the gradient with respect to that table. Adam then updates only these rows. If the
model encodes the graph, the small table has all rows, and the gradient passes through the encoding.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats, Probabilities, Triples
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.errors import KgcalWarning, first_line
from kgcore.training.batches import TrainingBatch, fill_last_chunk
from kgcore.training.corruptions import StepCorruptions
from kgcore.training.objective import Gathered, StepLosses, StepObjective, dropout
from kgcore.training.tables import Leaf, Tables
from kgcore.wings.fast_cpu.training import FastStep, StepBatch
from kgcore.wings.fast_gpu import RecordedStep

T = TypeVar("T")


@dataclass(frozen=True)
class Leaves:
    """The table rows that a step differentiates, and the position of each embedding of the step in these rows.

    entities, predicates  the rows of entities and of predicates
    shared                the parameters that belong to no single entity or predicate, by name
    entity_places         (2 b + corruptions,) indices into the rows of `entities`: for the subjects, the objects, the
                          replacements of subjects, then the replacements of objects
    predicate_places      (b,) indices into the rows of `predicates`, one for each positive
    """

    entities: Leaf
    predicates: Leaf
    shared: dict[str, Leaf]
    entity_places: Tensor
    predicate_places: Tensor

    def every(self) -> list[Leaf]:
        """Return all leaves, always in the same order."""
        return [self.entities, self.predicates, *self.shared.values()]

    def shared_values(self) -> dict[str, Tensor]:
        """Return name -> values of the shared parameters."""
        return {name: leaf.values for name, leaf in self.shared.items()}


class Step:
    """A runner of training steps on the tables.

    dropout_share  share of an entity's numbers that a step sets to 0
    rng            random generator of the dropout. The corruptions of a step are drawn before
    compiled_for   (number of positives, chunk size) of the batches that use compiled code. All other batches use
                   uncompiled code. None: all batches use uncompiled code
    grouped        whether a bilinear model computes the matrix of a predicate once for all its positives
    fast           compiled loops that run whole steps in place of automatic differentiation; None: no loops
    """

    def __init__(
        self,
        tables: Tables,
        corruptions: StepCorruptions,
        objective: StepObjective,
        dropout_share: float,
        rng: np.random.Generator,
        device: torch.device,
        compiled_for: tuple[int, int] | None,
        grouped: bool = False,
        fast: FastStep | None = None,
        recorded: RecordedStep | None = None,
    ) -> None:
        self._fast, self._recorded, self._grouped = fast, recorded, grouped
        self._tables, self._corruptions, self._objective = tables, corruptions, objective
        self._dropout_share, self._rng, self._device = dropout_share, rng, device
        self._compiled_for = compiled_for
        self._compiled = compile_if_possible(objective.evaluate, "training") if compiled_for else objective.evaluate

    def draw(self, positives: Triples, chunk: int, confidences: Probabilities | None = None) -> TrainingBatch:
        """Extend the positives (b, 3) to whole chunks of `chunk`, and draw their corruptions.

        confidences  (b,) confidences of the positives, in [0, 1]; None: they are surely true
        """
        filled, chunk = fill_last_chunk(positives, chunk)
        return TrainingBatch(filled, len(positives), chunk, self._corruptions.draw(filled, chunk), confidences)

    def run(
        self, batch: TrainingBatch, number: int, learning_rate: float, also: Callable[[], None] = lambda: None
    ) -> Tensor:
        """Update the tables with a batch. Return its loss before the update.

        number  number of the step, from 1
        also    called once, and not before the corruption strategy has learnt from the batch. Another thread may call
                it while the tables are updated: it must not read them
        """
        if self._fast is not None:
            drawn = batch.corruptions
            given = StepBatch(batch.positives, drawn.objects, drawn.subjects, drawn.left_out, batch.count)
            return self._fast.run(given, number, learning_rate, also)
        if self._recorded is not None:
            return self._recorded.run(batch, number, learning_rate, also)
        leaves = self._take(batch)
        losses = self._evaluate(batch, leaves.shared_values(), self._gather(batch, leaves))
        gradients = torch.autograd.grad(losses.loss + losses.penalty, [leaf.values for leaf in leaves.every()])
        for leaf, gradient in zip(leaves.every(), gradients, strict=True):
            leaf.update(gradient, number, learning_rate)
        if losses.rewards is not None:
            self._teach(batch, losses.rewards.cpu().numpy(), number)
        also()
        return losses.loss.detach()

    def _take(self, batch: TrainingBatch) -> Leaves:
        """Take the rows that the batch needs from the tables."""
        tables, positives, drawn = self._tables, batch.positives, batch.corruptions
        ids = np.concatenate([positives[:, 0], positives[:, 2], drawn.subjects.ravel(), drawn.objects.ravel()])
        entities, entity_places = tables.take(tables.entities, ids)
        predicates, predicate_places = tables.take(tables.predicates, positives[:, 1])
        return Leaves(entities, predicates, tables.take_shared(), entity_places, predicate_places)

    def _gather(self, batch: TrainingBatch, leaves: Leaves) -> Gathered:
        """Return the embeddings of positives and corruptions, after the encoding and the dropout."""
        entities, predicates = self._tables.encode(
            leaves.shared_values(), leaves.entities.values, leaves.predicates.values, leaves.entity_places
        )
        count = len(batch.positives)
        thinned = dropout(entities, self._dropout_share, self._rng)
        gathered = thinned.index_select(0, leaves.entity_places)
        ends = gathered if thinned is entities else entities.index_select(0, leaves.entity_places[: 2 * count])
        sizes = [count, count, batch.corruptions.subjects.size, batch.corruptions.objects.size]
        s, o, corrupted_s, corrupted_o = torch.split(gathered, sizes)
        places = leaves.predicate_places if self._grouped else None
        p = predicates if self._grouped else predicates.index_select(0, leaves.predicate_places)
        return Gathered(s, o, p, corrupted_s, corrupted_o, (ends[:count], ends[count : 2 * count]), places)

    def _evaluate(self, batch: TrainingBatch, shared: dict[str, Tensor], rows: Gathered) -> StepLosses:
        """Compute the losses of the batch, with compiled code if that was compiled for the shape of the batch."""
        left_out = torch.from_numpy(batch.corruptions.left_out).to(self._device)
        fits = (batch.count, batch.chunk) == self._compiled_for
        evaluate = self._compiled if fits else self._objective.evaluate
        if batch.confidences is None:
            return evaluate(shared, rows, left_out, batch.chunk, batch.count)
        confidences = torch.from_numpy(batch.confidences.astype(np.float32)).to(self._device)
        return evaluate(shared, rows, left_out, batch.chunk, batch.count, confidences)

    def _teach(self, batch: TrainingBatch, rewards: Floats, number: int) -> None:
        """Pass the rewards to the corruption strategy, separately for the objects and the subjects that it drew."""
        of_objects, of_subjects = np.split(rewards, [batch.corruptions.objects.shape[1]], axis=1)
        self._corruptions.strategy.learn(OBJECT, of_objects, number)
        self._corruptions.strategy.learn(SUBJECT, of_subjects, number)


def compile_if_possible(function: Callable[..., T], doing: str) -> Callable[..., T]:
    """Return the function in a form that torch.compile compiles at its first call.

    doing  name of the work that the function does, for the warning, such as "training"

    If the compilation fails, the function itself is called, and one KgcalWarning says that `doing` is slower.
    """
    # Without isolate_recompiles, all functions with the same source share a cache of 8: the ninth is not compiled.
    fast = torch.compile(function, dynamic=False, isolate_recompiles=True)  # type: ignore[call-overload]
    failed = False

    def call(*args: Any) -> T:
        nonlocal failed
        if not failed:
            try:
                result: T = fast(*args)
                return result
            except Exception as error:  # PyTorch does not document its errors for a missing or broken compiler
                failed = True
                reason = f"{doing} runs without torch.compile, which is slower: {first_line(error)}"
                warnings.warn(reason, KgcalWarning, stacklevel=2)
        return function(*args)

    return call
