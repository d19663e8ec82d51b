"""The CORP decomposition of a proper score into miscalibration, discrimination and uncertainty.

CORP recalibrates by isotonic regression of the labels on the probabilities, on the same triples. It has no bins and no
settings. Dimitriadis, Gneiting & Jordan, PNAS 2021, equations 5 and 6; Murphy 1973 for forecasts with few values. Even
perfect probabilities have a miscalibration above 0 on a sample, because isotonic regression fits some noise.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kgcore.arrays import Floats
from kgcore.metrics.tally import Tally

LeastLoss: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Decomposition:
    """The parts of a score: score = miscalibration - discrimination + uncertainty; each part >= 0.

    uncertainty     the score if every triple has the same probability, the share of true triples. It depends on the
                    triples, not on the probabilities.
    discrimination  by how much the score after recalibration is below `uncertainty`
    miscalibration  by how much recalibration would lower the score; 0 for perfect calibration on the sample
    """

    miscalibration: float
    discrimination: float
    uncertainty: float

    def without(self, spread: float) -> "Decomposition":
        """Return the parts of score - spread, where `spread` is a part of the uncertainty.

        The Brier score of confidences c is the expected Brier score without the mean of c (1 - c).
        """
        return replace(self, uncertainty=self.uncertainty - spread) if spread else self


def recalibrated(t: Tally) -> tuple[Floats, Floats]:
    """Recalibrate a tally. Return the weight of the true triples (b,) and of the false triples (b,) in each block.

    A block holds the triples with the same recalibrated probability. Blocks are in increasing order of it. They are
    found by pool adjacent violators on the distinct probabilities.
    """
    from scipy.optimize import isotonic_regression

    used = t.weight > 0
    positive, negative = t.positive[used], t.negative[used]
    fit = isotonic_regression(positive / (positive + negative), weights=positive + negative)
    starts = fit.blocks[:-1]
    return np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)


def decompose(score: float, least: LeastLoss, positive: Floats, negative: Floats) -> Decomposition:
    """Decompose a score.

    positive, negative  (b,) weight of the true and of the false triples in each block, from `recalibrated`
    least               `variance_loss` for the Brier score, `entropy_loss` for the log loss
    """
    total = positive.sum() + negative.sum()
    fitted = float(least(positive, negative).sum() / total)
    constant = float(least(positive.sum(), negative.sum()) / total)
    return Decomposition(max(score - fitted, 0.0), max(constant - fitted, 0.0), constant)


def variance_loss(positive: Floats, negative: Floats) -> Floats:
    """Return the total Brier loss of each block (b,), if the probability of its triples is its share of true triples.

    positive, negative  (b,) weight of the true and of the false triples in each block
    """
    return positive * negative / (positive + negative)


def entropy_loss(positive: Floats, negative: Floats) -> Floats:
    """Return the total log loss of each block (b,), in nats, with the arguments of `variance_loss`."""
    from scipy.special import xlogy

    total = positive + negative
    return np.asarray(-xlogy(positive, positive / total) - xlogy(negative, negative / total), dtype=np.float64)
