"""What has moved since calibration: the base rate, the map, both or neither.

The labelled triples that a calibrator was fitted on, and new labelled triples, are two samples. Let p(f) be the
probability of a triple with score f in the calibration sample, at the base rate of the calibrator. The model is

    logit P(y = 1 | f) = logit p(f)                           in the calibration sample,
    logit P(y = 1 | f) = logit p(f) + shift + bend(f)         among the new triples,

where bend has no constant part. If only the base rate moves, and the scores of true triples and those of false
triples keep their distributions, then bend = 0 and shift = logit(new base rate) - logit(base rate): see
kgcore/calibrate/sample.py. There are two hypotheses:

    the base rate has not moved   shift = 0, given bend = 0
    the map has not moved         bend = 0, with shift unknown

Both are tested by the likelihood ratio: 2 (log-likelihood with - log-likelihood without) is about chi-square under
the hypothesis (Wilks, Annals of Mathematical Statistics 9, 1938). p(f) is unknown: it is fitted on BOTH samples,
again for each model. So the uncertainty of the calibrator, which comes from its finite sample, is a part of the test.
The map that the calibrator gives is not used. For this reason the test has the same level for every calibrator, and a
calibrator that fits its own sample badly is not drift.

A calibration sample of positives and corruptions has more negatives than its base rate says. Its log-odds then differ
from p by a known constant, which is an offset (Prentice & Pyke, Biometrika 66, 1979). The number of positives counts
as random. If the base rate is stated as one number, it is fixed, and the p-values are a little too large. If it has a
95 % interval, estimated or stated, it may be wrong, and the constant is then not known exactly:

    logit P(y = 1 | f) = logit p(f) + constant + error        in the calibration sample,

with a normal prior of error, around 0. Its standard deviation is (logit(high) - logit(low)) / 3.92. The data hardly
tell error from shift, so an uncertain base rate makes the interval of shift wider and its p-value larger.

Scores enter by their ranks, in cells: in each cell, the true triples of either sample are a binomial count. logit p(f)
is a natural cubic spline. bend is tested twice: as a multiple of logit p(f), which is the calibration slope of Cox
(Biometrika 45, 1958), and as a spline with four parameters. The smaller of the two p-values is doubled (Bonferroni).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, chdtri, expit, logit, ndtri

from kgcore.calibrate.sample import CalibrationSample
from kgcore.measure.metrics.base import Estimate
from kgcore.wings.monitoring.two_samples import Fit, Limits, NewTriples, TwoSamples

LEVEL = 0.95


@dataclass(frozen=True)
class Moves:
    """The two tests of drift, and the sizes of the two moves with 95 % intervals.

    shift    change of the log-odds, if the map has not moved; 0: the base rate is as it was
    level    log-odds of the new base rate, less those of the base rate of the calibrator, if the map has not moved. Its
             interval is that of shift if the base rate of the calibrator is exact. If not, it is narrower, because
             the new labels tell the new base rate without the old one
    slope    calibration slope of the new triples against the calibration sample; 1: unchanged, below 1: the map is
             overconfident now. The interval takes logit p(f) of the calibration sample as exact, and is approximate
    misfit   what remains after the shift: root mean square of bend(f) over the new triples, in log-odds, weighted by
             p (1 - p); at least 0. The value is reduced by what sampling alone gives. The interval is conservative
    shift_p  p-value of: the base rate has not moved
    map_p    p-value of: the map has not moved
    """

    shift: Estimate
    level: Estimate
    slope: Estimate
    misfit: Estimate
    shift_p: float
    map_p: float

    def base_rate(self, before: float) -> Estimate:
        """Return the new base rate with its interval, if only the base rate has moved. `before` is the old one."""
        level = self.level
        return Estimate(*(float(expit(logit(before) + value)) for value in (level.value, level.low, level.high)))


def moves(sample: CalibrationSample, base_rate: float, new: NewTriples, limits: Limits | None = None) -> Moves:
    """Test whether the base rate or the map has moved between a calibration sample and new labelled triples.

    sample     the sample that the calibrator was fitted on
    base_rate  the base rate of the calibrator, in (0, 1)
    new        the new triples. Give their predicates if the calibrator has a map for each predicate. Then each
               predicate has a map of its own here, too, close to the map of all
    limits     the ends of the 95 % interval of the base rate, in (0, 1); None: the base rate is exact

    Raises InputError for a base rate or labels out of range, for arrays that are empty or of different lengths, and if
    the new triples have predicates and the sample has none; FitError if a fit does not converge.
    """
    both = TwoSamples.of(sample, base_rate, new, limits)
    null, shifted = both.fit(), both.fit(shift=True)
    sloped, bent = both.fit(shift=True, slope=True), both.fit(shift=True, bend=True)
    place = len(null.values)
    return Moves(
        shift=_estimate(shifted, [place]),
        level=_estimate(shifted, [place], [place - 1] if both.uncertain else []),
        slope=_slope(sloped, place + 1),
        misfit=_misfit(bent, place + 1, both),
        shift_p=_p_value(null, shifted),
        map_p=min(1.0, 2 * min(_p_value(shifted, sloped), _p_value(shifted, bent))),
    )


def _p_value(smaller: Fit, larger: Fit) -> float:
    """Return the p-value of the likelihood ratio of two nested models; 1 if they are the same model."""
    more = len(larger.values) - len(smaller.values)
    return float(chdtrc(more, max(0.0, 2 * (smaller.loss - larger.loss)))) if more else 1.0


def _estimate(found: Fit, plus: Sequence[int], minus: Sequence[int] = ()) -> Estimate:
    """Return the sum of the coefficients at `plus`, less those at `minus`, with its interval."""
    signs = np.zeros(len(found.values))
    signs[list(plus)], signs[list(minus)] = 1.0, -1.0
    value, spread = float(signs @ found.values), float(np.sqrt(signs @ found.covariance @ signs))
    reach = spread * float(ndtri((1 + LEVEL) / 2))
    return Estimate(value, value - reach, value + reach)


def _slope(sloped: Fit, place: int) -> Estimate:
    """Return the calibration slope: 1 + the coefficient at `place`. A flat map gives 1 with an infinite interval."""
    if place == len(sloped.values):
        return Estimate(1.0, -np.inf, np.inf)
    change = _estimate(sloped, [place])
    return Estimate(1 + change.value, 1 + change.low, 1 + change.high)


def _misfit(bent: Fit, place: int, both: TwoSamples) -> Estimate:
    """Return sqrt(b'Gb) for the coefficients b of bend, with an interval.

    G is the covariance of the columns of bend over the new triples, each weighted by p (1 - p). It leaves out the
    constant part, which belongs to the shift. The value is reduced by trace(G Cov(b)), its expectation without misfit.
    The confidence set of b is an ellipsoid; sqrt(b'Gb) changes on it by at most sqrt(c largest eigenvalue of G Cov(b)),
    c the quantile of chi-square.
    """
    b, covariance, rows = bent.values[place:], bent.covariance[place:, place:], both.rows
    if not len(b):
        return Estimate(0.0, 0.0, 0.0)
    p = expit(rows.design[both.first :][:, bent.columns] @ bent.values)
    weights = rows.count[both.first :] * p * (1 - p)
    columns = both.bends - np.average(both.bends, axis=0, weights=weights)
    gram = columns.T @ (columns * (weights / weights.sum())[:, None])
    size, quantile = float(b @ gram @ b), float(chdtri(len(b), 1 - LEVEL))
    reach = float(np.sqrt(quantile * max(0.0, np.linalg.eigvals(gram @ covariance).real.max())))
    could_be_none = float(b @ np.linalg.solve(covariance, b)) <= quantile
    low = 0.0 if could_be_none else max(0.0, float(np.sqrt(size)) - reach)
    value = float(np.sqrt(max(0.0, size - float(np.trace(gram @ covariance)))))
    return Estimate(max(value, low), low, float(np.sqrt(size)) + reach)
