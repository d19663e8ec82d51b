"""The objective of a training step: the loss and the LP penalty, computed from the embeddings of the step. Dropout.

`StepObjective` uses no ids, no tables and no random generator. Therefore torch.compile can compile all of it at once.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from kgcore.config import TrainConfig
from kgcore.embed.losses.base import NO_CORRUPTION, Loss
from kgcore.embed.models.base import Model, QueryModel
from kgcore.embed.models.bilinear import BilinearModel


class Gathered(NamedTuple):
    """The embeddings of b positives in chunks of c, and of the corruptions that each chunk shares.

    subjects, objects            (b, entity_width)
    predicates                   (b, predicate_width); for a bilinear model with `places`, (r, predicate_width): those
                                 of the r distinct predicates
    corrupted_subjects           ((b / c) m, entity_width): m replacements of the subject for each chunk
    corrupted_objects            ((b / c) n, entity_width): the same for n replacements of the object
    undropped                    two tensors (b, entity_width): the subjects and the objects, both before dropout
    places                       (b,) the place of each positive's predicate in `predicates`; None: its own place
    """

    subjects: Tensor
    objects: Tensor
    predicates: Tensor
    corrupted_subjects: Tensor
    corrupted_objects: Tensor
    undropped: tuple[Tensor, Tensor]
    places: Tensor | None = None


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


class StepObjective:
    """The computation of the loss and the penalty of a step.

    rewarded  whether the corruption strategy learns from the scores of its corruptions
    """

    def __init__(self, model: Model, loss: Loss, config: TrainConfig, rewarded: bool) -> None:
        self._model, self._loss, self._rewarded = model, loss, rewarded
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
        queries, sides, count = self._queries(model, rows), list[Tensor](), len(rows.subjects) // chunk
        for query, candidates in zip(queries, (rows.corrupted_objects, rows.corrupted_subjects), strict=True):
            if len(candidates):
                blocks, shared = (part.view(count, -1, part.shape[-1]) for part in (query, candidates))
                sides.append(model.comparator.outer(blocks, shared).reshape(len(query), -1))
        return model.comparator.pairs(queries[0], rows.objects), sides

    def _queries(self, model: QueryModel, rows: Gathered) -> tuple[Tensor, Tensor]:
        """Return the object queries and the subject queries (b, d) of the positives."""
        s, p, o = rows.subjects, rows.predicates, rows.objects
        if isinstance(model, BilinearModel) and rows.places is not None:
            return model.grouped_queries(s, p, o, rows.places)
        return model.object_query(s, p), model.subject_query(p, o) if len(rows.corrupted_subjects) else s

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
        corrupted = corrupted.masked_fill(left_out, NO_CORRUPTION)
        if confidences is None:
            return self._loss(positives, corrupted)
        return self._loss.of_confidences(positives, corrupted, confidences)

    def _penalise(self, rows: Gathered, count: int, loss: Tensor) -> Tensor:
        """Return the weighted LP penalty of the embeddings of the first `count` positives, before dropout."""
        if not self._lp_weight:
            return torch.zeros_like(loss)
        p = rows.predicates if rows.places is None else rows.predicates.index_select(0, rows.places)
        return self._lp_weight * lp(torch.cat([*rows.undropped, p], -1)[:count], self._lp_power)


def mean_scores(corrupted: Tensor, left_out: Tensor, chunk: int) -> Tensor:
    """Return the mean score (b / chunk, n) of each corruption over the positives that use it.

    The mean is 0 if no positive of the chunk uses the corruption.

    corrupted  (b, n) the score of each corruption for each positive
    left_out   (b, n) bool: True where a positive does not use a corruption
    """
    counts = ~left_out
    scores, counted = (part.view(-1, chunk, left_out.shape[1]) for part in (corrupted.masked_fill(left_out, 0), counts))
    return scores.sum(1) / counted.sum(1).clamp(min=1)


def lp(embeddings: Tensor, power: float) -> Tensor:
    """Return the LP penalty sum_i |x_i|^p, a scalar, over all numbers x_i of the embeddings. p is `power`.

    The embeddings may have any shape. An embedding that n positives of the step use is counted n times, as in the loss.
    p is usually 2 or 3 (3: Lacroix et al., ICML 2018; paper, section 5.1).
    """
    return (embeddings.square() if power == 2 else embeddings.abs().pow(power)).sum()


def dropout(embeddings: Tensor, share: float, rng: np.random.Generator) -> Tensor:
    """Apply dropout: x_ij -> x_ij b_ij / (1 - share). b_ij is 0 with probability `share` in [0, 1), otherwise 1.

    The expected value of the result equals the embeddings. Each row is the embedding of
    one distinct entity of a step. Therefore an entity has the same components set to 0 everywhere in the step, in
    positives and in corruptions.

    Srivastava et al., "Dropout: A Simple Way to Prevent Neural Networks from Overfitting", JMLR 2014.
    """
    if not share:
        return embeddings
    kept = rng.random(tuple(embeddings.shape), dtype=np.float32) >= share
    return embeddings * (torch.from_numpy(kept).to(embeddings.device) / (1 - share))
