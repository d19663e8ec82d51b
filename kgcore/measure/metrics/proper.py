"""Proper scores: metrics whose expected value is lowest for the true probabilities, and for no others.

The errors against confidences are defined only if the triples have confidences.

The CORP decomposition divides a proper score into miscalibration, discrimination and uncertainty. It recalibrates by
isotonic regression of the labels on the probabilities, on the same triples, and has no bins and no settings.
Dimitriadis, Gneiting & Jordan, PNAS 2021, equations 5 and 6; Murphy 1973 for forecasts with few values. Even perfect
probabilities have a miscalibration above 0 on a sample, because isotonic regression fits some noise. All metrics of a
tally use the same recalibration, and all metrics of one score the same decomposition.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.measure.metrics.base import LAST, NOT_NEGATIVE, UNIT, Best, Family, Metric, Sample, Tally, checked_rows
from kgcore.registries import METRICS

CLIP = 1e-7  # as in the published code
LeastLoss: TypeAlias = Callable[[Floats, Floats], Floats]
_FAMILIES: dict[str, tuple[Family, Best]] = {
    "miscalibration": ("calibration", "lowest"),
    "discrimination": ("discrimination", "highest"),
    "uncertainty": ("uncertainty", "neither"),
}


def brier(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the Brier score sum_i w_i (q_i - y_i)^2 / sum_i w_i, in [0, 1]. Brier 1950; paper, section 4, equation 2.

    For confidences y_i in [0, 1] it is the mean squared error. Raises InputError for values outside [0, 1].
    """
    q, y, w = checked_rows(probabilities, labels, weights)
    return float(np.average((q - y) ** 2, weights=w))


def log_loss(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the log loss -sum_i w_i [y_i log q_i + (1 - y_i) log(1 - q_i)] / sum_i w_i, in nats.

    q is clipped to [CLIP, 1 - CLIP] first. Paper, section 4. Raises InputError as `brier` does.
    """
    q, y, w = checked_rows(probabilities, labels, weights)
    q = q.clip(CLIP, 1 - CLIP)
    return float(-np.average(y * np.log(q) + (1 - y) * np.log1p(-q), weights=w))


def brier_of(t: Tally) -> float:
    """Compute `brier` on a tally."""
    return expected_brier_of(t) if t.errors is None else mean_squared_error_of(t)


def expected_brier_of(t: Tally) -> float:
    """Compute the expected Brier score on a tally, if each triple is true with the probability that is its confidence.

    It is the Brier score plus the mean of c (1 - c) over the confidences c. For labels 0 and 1, it is the Brier score.
    """
    return t.mean((1 - t.q) ** 2, t.q**2)


def log_loss_of(t: Tally) -> float:
    """Compute `log_loss` on a tally."""
    return t.mean(*t.sample.once(_logarithms))


def _logarithms(sample: Sample) -> tuple[Floats, Floats]:
    """Return, for each distinct probability, the log loss of a true triple (g,) and of a false triple (g,)."""
    q = sample.q.clip(CLIP, 1 - CLIP)
    return -np.log(q), -np.log1p(-q)


def mean_squared_error_of(t: Tally) -> float:
    """Return sum_i w_i (q_i - c_i)^2 / sum_i w_i, in [0, 1], for confidences c_i; NaN without confidences.

    It is the Brier score of confidences. It is lowest for the expected confidence.
    """
    return math.nan if t.errors is None else float(t.errors.squared.sum() / t.weight.sum())


def mean_absolute_error_of(t: Tally) -> float:
    """Return sum_i w_i |q_i - c_i| / sum_i w_i, in [0, 1], for confidences c_i; NaN without confidences.

    It is lowest for the median confidence, not for the mean. So it does not decide which calibrator is best.
    """
    return math.nan if t.errors is None else float(t.errors.absolute.sum() / t.weight.sum())


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
    """Decompose the Brier score of a tally. That of confidences c is the expected one without the mean of c (1 - c)."""
    expected = expected_brier_of(t)
    parts = decompose(expected, variance_loss, *t.once(recalibrated))
    return replace(parts, uncertainty=parts.uncertainty - (expected - brier_of(t)))


def log_loss_parts(t: Tally) -> Decomposition:
    """Decompose the log loss of a tally, in nats."""
    return decompose(log_loss_of(t), entropy_loss, *t.once(recalibrated))


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


METRICS.add(
    "brier", Metric("Brier score", "headline", "lowest", brier_of, leading=True, with_ends=True, order=10, column=10)
)
METRICS.add("log_loss", Metric("log loss", "headline", "lowest", log_loss_of, NOT_NEGATIVE, order=20, column=20))
METRICS.add(
    "mean_squared_error",
    Metric("mean squared error", "confidence", "lowest", mean_squared_error_of, order=170, column=10),
)
METRICS.add(
    "mean_absolute_error",
    Metric("mean absolute error", "confidence", "lowest", mean_absolute_error_of, leading=True, order=180, column=20),
)
METRICS.add("brier_miscalibration", _part("miscalibration", "Brier", brier_parts, 80, 40))
METRICS.add("brier_discrimination", _part("discrimination", "Brier", brier_parts, 90, 10))
METRICS.add("brier_uncertainty", _part("uncertainty", "Brier", brier_parts, 100))
METRICS.add("log_loss_miscalibration", _part("miscalibration", "log loss", log_loss_parts, 110, 50, NOT_NEGATIVE))
METRICS.add("log_loss_discrimination", _part("discrimination", "log loss", log_loss_parts, 120, 20, NOT_NEGATIVE))
METRICS.add("log_loss_uncertainty", _part("uncertainty", "log loss", log_loss_parts, 130, limits=NOT_NEGATIVE))
