"""The CORP decomposition of a proper score into miscalibration, discrimination and uncertainty.

CORP recalibrates by isotonic regression of the labels on the probabilities, on the same triples. It has no bins and no
settings. Dimitriadis, Gneiting & Jordan, PNAS 2021, equations 5 and 6; Murphy 1973 for forecasts with few values. Even
perfect probabilities have a miscalibration above 0 on a sample, because isotonic regression fits some noise.

All metrics of a tally use the same recalibration. All metrics of one score use the same decomposition.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kgcore.arrays import Floats
from kgcore.metrics.base import LAST, NOT_NEGATIVE, UNIT, Best, Family, Metric, Tally
from kgcore.metrics.proper import brier_of, expected_brier_of, log_loss_of
from kgcore.registries import METRICS

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


def brier_parts(t: Tally) -> Decomposition:
    """Decompose the Brier score of a tally."""
    expected = expected_brier_of(t)
    return decompose(expected, variance_loss, *t.once(recalibrated)).without(expected - brier_of(t))


def log_loss_parts(t: Tally) -> Decomposition:
    """Decompose the log loss of a tally, in nats."""
    return decompose(log_loss_of(t), entropy_loss, *t.once(recalibrated))


_FAMILIES: dict[str, tuple[Family, Best]] = {
    "miscalibration": ("calibration", "lowest"),
    "discrimination": ("discrimination", "highest"),
    "uncertainty": ("uncertainty", "neither"),
}


def _part(
    part: str,
    score: str,
    parts: Callable[[Tally], Decomposition],
    order: int,
    column: int = LAST,
    limits: tuple[float, float] = UNIT,
) -> Metric:
    """Return the metric that is one part of a score. Only the uncertainty has an interval that covers."""
    family, best = _FAMILIES[part]

    def figure(t: Tally) -> float:
        return float(getattr(t.once(parts), part))

    title, has_interval = f"{part} ({score})", part == "uncertainty"
    return Metric(title, family, best, figure, limits, has_interval, order=order, column=column)


METRICS.add("brier_miscalibration", _part("miscalibration", "Brier", brier_parts, 80, 40))
METRICS.add("brier_discrimination", _part("discrimination", "Brier", brier_parts, 90, 10))
METRICS.add("brier_uncertainty", _part("uncertainty", "Brier", brier_parts, 100))
METRICS.add("log_loss_miscalibration", _part("miscalibration", "log loss", log_loss_parts, 110, 50, NOT_NEGATIVE))
METRICS.add("log_loss_discrimination", _part("discrimination", "log loss", log_loss_parts, 120, 20, NOT_NEGATIVE))
METRICS.add("log_loss_uncertainty", _part("uncertainty", "log loss", log_loss_parts, 130, limits=NOT_NEGATIVE))
