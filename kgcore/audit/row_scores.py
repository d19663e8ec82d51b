"""The scores of the rows of an audit, by models that were trained on them and by the model that was not."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata

from kgcore.arrays import Floats, Ints, Scores
from kgcore.audit.folds import KEPT
from kgcore.audit.plan import AuditPlan

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel


@dataclass(frozen=True)
class RowScores:
    """The scores of N rows. A row is seen by the models that were trained on it.

    Scores of different models and predicates cannot be compared. Their places can: the place of a score is the logit of
    r / (N_p + 1), where r is its rank, from the lowest, among the scores that the same model gives to the N_p rows of
    the predicate.

    seen          (N,) mean score by the models that have seen the row
    unseen        (N,) score by the model that has not; NaN for a row that every model has seen
    seen_place    (N,) mean place of the scores in `seen`
    unseen_place  (N,) place of `unseen`; NaN where `unseen` is NaN
    """

    seen: Scores
    unseen: Scores
    seen_place: Floats
    unseen_place: Floats


def score_rows(plan: AuditPlan, models: "Iterable[TrainedModel]") -> RowScores:
    """Score all rows of an audit.

    models  the model of each fold, in the order of the folds. Only one model at a time is held in memory
    """
    size, predicates, number = len(plan.triples), plan.triples[:, 1], 0
    seen, seen_place = np.zeros(size), np.zeros(size)
    unseen, unseen_place = np.full(size, np.nan), np.full(size, np.nan)
    for number, model in enumerate(models, 1):
        scores = model.score(plan.triples)
        place, left_out = places(scores, predicates), plan.fold == number - 1
        for sums, own, values in ((seen, unseen, scores), (seen_place, unseen_place, place)):
            sums[~left_out] += values[~left_out]
            own[left_out] = values[left_out]
    models_of = np.where(plan.fold == KEPT, number, number - 1)
    return RowScores(seen / models_of, unseen, seen_place / models_of, unseen_place)


def places(scores: Scores, predicates: Ints) -> Floats:
    """Return the place (n,) of each score among the scores of its predicate: see `RowScores`. Ties share their mean."""
    found = np.empty(len(scores))
    order = np.argsort(predicates, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(predicates[order])) + 1):
        found[rows] = logit(rankdata(scores[rows]) / (len(rows) + 1))
    return found
