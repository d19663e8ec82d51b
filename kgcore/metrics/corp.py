"""The parts of a proper score: miscalibration, discrimination and uncertainty."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.proper import CLIP, brier, log_loss
from kgcore.metrics.tally import Tally, tally

LeastLoss: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Decomposition:
    """score = miscalibration - discrimination + uncertainty; each >= 0.

    miscalibration  by how much recalibration would lower the score; 0 for perfect calibration on the sample
    discrimination  by how much the recalibrated score is below the score of the constant share of true triples
    uncertainty     the score of that constant; it depends on the triples, not on the probabilities
    """

    miscalibration: float
    discrimination: float
    uncertainty: float

    @property
    def score(self) -> float:
        """The score that was decomposed."""
        return self.miscalibration - self.discrimination + self.uncertainty


def decompose_brier(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Decomposition:
    """The parts of the Brier score in the CORP approach.

    CORP recalibrates by isotonic regression of the labels on the probabilities, on the same triples. It has no bins and
    no settings.

    Dimitriadis, Gneiting & Jordan, PNAS 2021, equations 5 and 6; Murphy 1973 for forecasts with few values.
    On a sample, the miscalibration of perfect probabilities is above 0, too: isotonic regression fits some noise.
    Raises InputError for values out of range.
    """
    score = brier(probabilities, labels, weights)
    return decompose(score, variance_loss, *recalibrated(tally(probabilities, labels, weights)))


def decompose_log_loss(
    probabilities: Probabilities, labels: Labels, weights: Weights | None = None, clip: float = CLIP
) -> Decomposition:
    """The parts of the log loss, as `decompose_brier`; in nats, with probabilities clipped as `log_loss` clips them.

    Recalibrated probabilities need no clipping: they are 0 or 1 only where every triple is false or true.
    """
    score = log_loss(probabilities, labels, weights, clip)
    return decompose(score, entropy_loss, *recalibrated(tally(probabilities, labels, weights)))


def recalibrated(t: Tally) -> tuple[Floats, Floats]:
    """Weight of the true and of the false triples in each block of equal recalibrated probability (b,), increasing.

    Pool-adjacent-violators on the distinct probabilities.
    """
    from scipy.optimize import isotonic_regression

    used = t.weight > 0
    positive, negative = t.positive[used], t.negative[used]
    fit = isotonic_regression(positive / (positive + negative), weights=positive + negative)
    starts = fit.blocks[:-1]
    return np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)


def decompose(score: float, least: LeastLoss, positive: Floats, negative: Floats) -> Decomposition:
    """The parts of a score, given the weights of the `recalibrated` blocks (b,).

    least  `variance_loss` for the Brier score, `entropy_loss` for the log loss
    """
    total = positive.sum() + negative.sum()
    fitted = float(least(positive, negative).sum() / total)
    constant = float(least(positive.sum(), negative.sum()) / total)
    return Decomposition(max(score - fitted, 0.0), max(constant - fitted, 0.0), constant)


def variance_loss(positive: Floats, negative: Floats) -> Floats:
    """Total Brier loss of blocks (b,) with these weights of true and false triples, each judged by its own share."""
    return positive * negative / (positive + negative)


def entropy_loss(positive: Floats, negative: Floats) -> Floats:
    """Total log loss of blocks (b,), as `variance_loss`."""
    from scipy.special import xlogy

    total = positive + negative
    return np.asarray(-xlogy(positive, positive / total) - xlogy(negative, negative / total), dtype=np.float64)
