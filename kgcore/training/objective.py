"""The objective of a training step: the loss and the LP penalty, computed from the embeddings of the step.

The module uses no ids, no tables and no random generator. Therefore torch.compile can compile all of it at once.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from kgcore.config import TrainConfig
from kgcore.losses.base import NO_CORRUPTION, Loss
from kgcore.models.base import Model, QueryModel
from kgcore.models.comparators import Comparator
from kgcore.models.rows import TableRows, compare
from kgcore.training.regulariser import lp
from kgcore.workers import Workers


class Gathered(NamedTuple):
    """The embeddings of b positives in chunks of c, and of the corruptions that each chunk shares.

    subjects, objects            (b, entity_width)
    predicates                   (b, predicate_width); or (r, predicate_width), those of the r distinct predicates
    corrupted_subjects           ((b / c) m, entity_width): m replacements of the subject for each chunk. Or they are
                                 rows of the table
    corrupted_objects            ((b / c) n, entity_width): the same for n replacements of the object
    undropped                    two tensors (b, entity_width): the subjects and the objects, both before dropout
    places                       (b,) the place of each positive's predicate in `predicates`; None: its own place
    """

    subjects: Tensor
    objects: Tensor
    predicates: Tensor
    corrupted_subjects: Tensor | TableRows
    corrupted_objects: Tensor | TableRows
    undropped: tuple[Tensor, Tensor]
    places: Tensor | None = None

    def predicate_of_each(self) -> Tensor:
        """Return the embeddings of the positives' predicates: (b, predicate_width)."""
        return self.predicates if self.places is None else self.predicates.index_select(0, self.places)


class StepLosses(NamedTuple):
    """The loss and the penalty of a step, and the rewards of its corruptions.

    loss     scalar: sum over the positives of the step
    penalty  scalar: sum over the positives of the step, multiplied by the weight of the LP regulariser
    rewards  (b / c, n + m) mean score of each corruption over the positives of its chunk; the n objects come first.
             None if the corruption strategy does not learn
    """

    loss: Tensor
    penalty: Tensor
    rewards: Tensor | None


class Objective:
    """The computation of the loss and the penalty of a step.

    rewarded  whether the corruption strategy learns from the scores of its corruptions
    workers   the threads that share the loops of comparators and losses; None: all is computed in PyTorch
    """

    def __init__(
        self, model: Model, loss: Loss, config: TrainConfig, rewarded: bool, workers: Workers | None = None
    ) -> None:
        self._model, self._loss, self._rewarded, self._workers = model, loss, rewarded, workers
        self._sides_apart, self._lp_weight, self._lp_power = config.sides_apart, config.lp_weight, config.lp_power

    def evaluate(
        self,
        shared: Mapping[str, Tensor],
        rows: Gathered,
        left_out: Tensor,
        chunk: int,
        count: int,
        confidences: Tensor | None = None,
    ) -> StepLosses:
        """Compute the loss and the penalty of the first `count` positives. The others only fill the last chunk.

        shared       parameters that belong to no single entity or predicate, by name
        left_out     (b, n + m) bool: True where the loss of a positive ignores a corruption; the n objects come first
        confidences  (count,) confidences of the positives, in [0, 1]; None: they are surely true
        """
        model = self._model.bound(shared)
        score = self._score_queries if isinstance(model, QueryModel) else self._score
        positives, sides = score(model, rows, chunk)
        rewards = mean_scores(torch.cat(sides, -1).detach(), left_out, chunk) if self._rewarded else None
        loss = self._sum_losses(positives, sides, left_out, count, confidences)
        return StepLosses(loss, self._penalise(rows, count, loss), rewards)

    def _score(self, model: Model, rows: Gathered, chunk: int) -> tuple[Tensor, list[Tensor]]:
        """Return the scores of the positives (b,), of their object corruptions (b, n) and subject corruptions (b, m).

        Every positive of a chunk is scored with every corruption of the chunk. If a side has no corruptions, the list
        does not contain it.
        """
        s, p, o = (part.view(-1, chunk, part.shape[-1]) for part in (rows.subjects, rows.predicates, rows.objects))
        count, sides = len(rows.subjects), []
        assert isinstance(rows.corrupted_objects, Tensor)
        assert isinstance(rows.corrupted_subjects, Tensor)
        if len(rows.corrupted_objects):
            candidates = rows.corrupted_objects.view(len(o), -1, o.shape[-1])
            sides.append(model.score_objects(s, p, candidates).reshape(count, -1))
        if len(rows.corrupted_subjects):
            candidates = rows.corrupted_subjects.view(len(s), -1, s.shape[-1])
            sides.append(model.score_subjects(p, o, candidates).reshape(count, -1))
        return model.score(rows.subjects, rows.predicates, rows.objects), sides

    def _score_queries(self, model: Model, rows: Gathered, chunk: int) -> tuple[Tensor, list[Tensor]]:
        """Return the same as `_score` for a model that computes one query for a positive and for its corruptions."""
        assert isinstance(model, QueryModel)
        (query, of_subjects), sides = self._queries(model, rows), list[Tensor]()
        if len(rows.corrupted_objects):
            sides.append(self._compare(model.comparator, query, rows.corrupted_objects, chunk))
        if len(rows.corrupted_subjects):
            sides.append(self._compare(model.comparator, of_subjects, rows.corrupted_subjects, chunk))
        return model.comparator.pairs(query, rows.objects), sides

    def _queries(self, model: QueryModel, rows: Gathered) -> tuple[Tensor, Tensor]:
        """Return the object queries and the subject queries (b, d) of the positives."""
        s, p, o = rows.subjects, rows.predicates, rows.objects
        if rows.places is not None:
            return model.grouped_queries(s, p, o, rows.places)
        return model.object_query(s, p), model.subject_query(p, o) if len(rows.corrupted_subjects) else s

    def _compare(self, comparator: Comparator, queries: Tensor, candidates: Tensor | TableRows, chunk: int) -> Tensor:
        """Score each of the queries (b, d) with the candidates that its chunk shares: (b, n)."""
        if isinstance(candidates, TableRows):
            assert comparator.kind is not None
            return compare(comparator.kind, queries, candidates)
        blocks = queries.view(-1, chunk, queries.shape[-1])
        shared = candidates.view(len(blocks), -1, candidates.shape[-1])
        outer = (
            comparator.outer(blocks, shared)
            if self._workers is None
            else comparator.of_chunks(blocks, shared, self._workers)
        )
        return outer.reshape(len(queries), -1)

    def _sum_losses(
        self, positives: Tensor, sides: list[Tensor], left_out: Tensor, count: int, confidences: Tensor | None
    ) -> Tensor:
        """Return the loss of the first `count` positives with their corruptions, one tensor (b, n) for each side.

        If the settings ask for it (`sides_apart`), this is the sum of two losses: one for each side.
        """
        if self._sides_apart:
            masks = torch.split(left_out, [side.shape[-1] for side in sides], -1)
            losses = [
                self._loss_of(positives, side, mask, count, confidences)
                for side, mask in zip(sides, masks, strict=True)
            ]
            return torch.stack(losses).sum()
        return self._loss_of(positives, torch.cat(sides, -1), left_out, count, confidences)

    def _loss_of(
        self, positives: Tensor, corrupted: Tensor, left_out: Tensor, count: int, confidences: Tensor | None
    ) -> Tensor:
        if count < len(positives):
            positives, corrupted, left_out = positives[:count], corrupted[:count], left_out[:count]
        if confidences is None:
            return self._loss.counted(positives, corrupted, left_out, self._workers)
        return self._loss.of_confidences(positives, corrupted.masked_fill(left_out, NO_CORRUPTION), confidences)

    def _penalise(self, rows: Gathered, count: int, loss: Tensor) -> Tensor:
        """Return the weighted LP penalty of the embeddings of the first `count` positives, before dropout."""
        if not self._lp_weight:
            return torch.zeros_like(loss)
        s, o = rows.undropped
        return self._lp_weight * lp(torch.cat([s, o, rows.predicate_of_each()], -1)[:count], self._lp_power)


def mean_scores(corrupted: Tensor, left_out: Tensor, chunk: int) -> Tensor:
    """Return the mean score (b / chunk, n) of each corruption over the positives that use it.

    The mean is 0 if no positive of the chunk uses the corruption.

    corrupted  (b, n) the score of each corruption for each positive
    left_out   (b, n) bool: True where a positive does not use a corruption
    """
    counts = ~left_out
    scores, counted = (part.view(-1, chunk, left_out.shape[1]) for part in (corrupted.masked_fill(left_out, 0), counts))
    return scores.sum(1) / counted.sum(1).clamp(min=1)
