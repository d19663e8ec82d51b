"""Beta calibration: Platt scaling with separate slopes for low and for high scores."""

from typing import Self

import numpy as np
from scipy.special import expit

from kgcore.arrays import Floats, Probabilities, Scores, Weights
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.logistic import fit_line, fit_logistic, mean_keeping_targets
from kgcore.calibrate.sample import CalibrationSample
from kgcore.registries import CALIBRATORS

BENDS = np.linspace(0.1, 0.9, 9)  # quantiles of the sample's log-odds, at which the slope may change
FAR = 100.0  # log-odds are clipped to it in the fit: with a score that is very far away, no step would be exact
BOUNDED = np.array([True, True, False])  # a and b are at least 0
EQUAL = 1e-9  # losses that differ by less are equal, so that rounding chooses no bend: the first one is used
BINS = 400  # bins of log-odds, on which the place of the bend is chosen


@CALIBRATORS.register("beta")
class Beta(Calibrator):
    """Beta calibration: q = sigmoid(a ln p - b ln(1 - p) + c), a >= 0, b >= 0, p = sigmoid(slope f + intercept).

    Kull, Silva Filho & Flach, AISTATS 2017, equation 6. The input of the paper is a probability. Here logit p is the
    output of Platt scaling less a number m, so Platt scaling is a = b = 1, c = m. As a function of logit p, logit q has
    the slope a (1 - p) + b p. So the slope is about a where p is small, and about b where p is large; it changes where
    Platt scaling has the log-odds m.

    Within these bounds, a, b and c minimise the weighted log loss against targets near 0 and 1, which keep the weighted
    mean of the labels: `mean_keeping_targets`. The weighted mean of q then is the base rate. The paper uses the targets
    0 and 1, but then no best curve exists if the scores separate the labels. m minimises the same loss among 0 and the
    quantiles BENDS of Platt scaling's log-odds. With m = 0 alone, a curve that is flat below the base rate and steep
    above it cannot be fitted: facts that the model has not learned are spread evenly over the low scores.

    If the sample has only two distinct scores, a = b = 1 and c = m = 0. If the scores rank positives below negatives, q
    is the constant base rate, and a KgcalWarning is given. Raises FitError if the fit does not converge.
    """

    fitted = ("a", "b", "c", "slope", "intercept")
    a_: float
    b_: float
    c_: float
    slope_: float
    intercept_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        targets = mean_keeping_targets(sample.labels, sample.weights, sample.counts)
        slope, intercept = fit_line("beta calibration", sample, targets)
        f = sample.scores
        if slope == 0 or ((f == f.min()) | (f == f.max())).all():
            return self.set_fitted(a=1.0, b=1.0, c=0.0, slope=slope, intercept=intercept)
        log_odds = slope * f + intercept
        bend = best_bend(log_odds, targets, sample.weights)
        a, b, c = _fit(log_odds, bend, targets, sample.weights).tolist()
        return self.set_fitted(a=a, b=b, c=c, slope=slope, intercept=intercept - bend)

    def calibrate(self, scores: Scores) -> Probabilities:
        with np.errstate(over="ignore"):
            log_odds = self.slope_ * np.asarray(scores, dtype=np.float64) + self.intercept_
        of_a, of_b, _ = features(log_odds.clip(-1e300, 1e300))  # finite: a parameter of 0 times infinity would be NaN
        # A product of matrices may round a score differently at another position; these sums do not.
        q: Probabilities = expit(self.a_ * of_a + self.b_ * of_b + self.c_)
        return q


def features(log_odds: Floats) -> Floats:
    """Return the features (3, n) of log-odds (n,): the rows ln p, -ln(1 - p) and 1, with p = sigmoid(log_odds).

    They are computed from the log-odds directly, because p would round to 0 or 1 for extreme log-odds.
    """
    return np.stack([-np.logaddexp(0, -log_odds), np.logaddexp(0, log_odds), np.ones_like(log_odds)])


def best_bend(log_odds: Floats, targets: Probabilities, weights: Weights) -> float:
    """Return the m at which beta calibration fits best: 0 or one of the quantiles BENDS of log_odds (n,).

    targets, weights  (n,) as in `fit_logistic`

    The fits use at most BINS points: the means of log-odds and targets in bins of equal width.
    """
    low, width = float(log_odds.min()), float(np.ptp(log_odds)) / BINS
    place = ((log_odds - low) / width).astype(np.int64).clip(max=BINS - 1)
    total = np.bincount(place, weights, BINS)
    some = total > 0
    z, t = (np.bincount(place, weights * own, BINS)[some] / total[some] for own in (log_odds, targets))
    total = total[some] / total.sum()
    losses: dict[float, float] = {}
    for m in (0.0, *np.interp(BENDS, np.cumsum(total) - total / 2, z).tolist()):
        u = _fit(z, m, t, total) @ features(z - m)
        losses[float(m)] = float(total @ (np.logaddexp(0, u) - t * u))
    least = min(losses.values())
    return next(m for m, loss in losses.items() if loss <= least + EQUAL)


def _fit(log_odds: Floats, bend: float, targets: Probabilities, weights: Weights) -> Floats:
    """Return a, b and c for Platt scaling's log-odds (n,), m, and targets and weights (n,).

    The fit starts at Platt scaling, a = b = 1 and c = m. At c = 0, a large m would make all probabilities 0 or 1 to the
    last digit, where the loss is flat.
    """
    design, start = features((log_odds - bend).clip(-FAR, FAR)), np.array([1.0, 1.0, np.clip(bend, -FAR, FAR)])
    return fit_logistic("beta calibration", design, targets, weights, start, BOUNDED)
