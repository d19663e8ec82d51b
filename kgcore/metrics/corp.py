"""What a proper score is made of: miscalibration, discrimination and uncertainty."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.proper import CLIP, brier, log_loss
from kgcore.metrics.tally import Tally, tally

Least: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty; each >= 0.

    miscalibration  by how much recalibration would lower the score: 0 of perfect calibration on the sample
    discrimination  by how much the recalibrated score is below that of the constant share of true triples
    uncertainty     the score of that constant: of the triples, not of who judges them
    """

    miscalibration: float
    discrimination: float
    uncertainty: float

    @property
    def score(self) -> float:
        """What was decomposed."""
        return self.miscalibration - self.discrimination + self.uncertainty


def decompose_brier(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Decomposition:
    """The Brier score's parts in the CORP approach: recalibrated is the isotonic regression of the labels on the
    probabilities, on the same triples. No bins, no settings.

    Dimitriadis, Gneiting & Jordan, PNAS 2021, equations 5 and 6; Murphy 1973 of forecasts that take few values.
    On a sample miscalibration is somewhat above 0 of perfect probabilities, too: what isotonic regression can fit.
    Raises InputError for values out of range.
    """
    score = brier(probabilities, labels, weights)
    return decompose(score, BRIER, *recalibrated(tally(probabilities, labels, weights)))


def decompose_log_loss(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, clip: float = CLIP
) -> Decomposition:
    """The log loss' parts, as `decompose_brier`; in nats, probabilities clipped to [clip, 1 - clip] as `log_loss` does.

    The recalibrated ones need no clip: where they are 0 or 1 every triple is false or true.
    """
    score = log_loss(probabilities, labels, weights, clip)
    return decompose(score, LOG_LOSS, *recalibrated(tally(probabilities, labels, weights)))


def recalibrated(t: Tally) -> tuple[Floats, Floats]:
    """Weight of the true and of the false triples in each block of equal recalibrated probability (b,), increasing:
    pool-adjacent-violators on the distinct probabilities."""
    from scipy.optimize import isotonic_regression

    used = t.weight > 0
    positive, negative = t.positive[used], t.negative[used]
    fit = isotonic_regression(positive / (positive + negative), weights=positive + negative)
    starts = fit.blocks[:-1]
    return np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)


def decompose(score: float, least: Least, positive: Floats, negative: Floats) -> Decomposition:
    """The parts of a score, BRIER or LOG_LOSS, that was measured, given the `recalibrated` blocks (b,)."""
    total = positive.sum() + negative.sum()
    fitted = float(least(positive, negative).sum() / total)
    constant = float(least(positive.sum(), negative.sum()) / total)
    return Decomposition(max(score - fitted, 0.0), max(constant - fitted, 0.0), constant)


def _variance(positive: Floats, negative: Floats) -> Floats:
    return positive * negative / (positive + negative)


def _entropy(positive: Floats, negative: Floats) -> Floats:
    from scipy.special import xlogy

    total = positive + negative
    return np.asarray(-xlogy(positive, positive / total) - xlogy(negative, negative / total), dtype=np.float64)


# the total loss of blocks of these positive and negative weights, each judged by its own share of positives
BRIER, LOG_LOSS = _variance, _entropy
