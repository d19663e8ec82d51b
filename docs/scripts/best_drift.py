"""The best test of a shift: a yardstick for the tests of `kgcal watch` in docs/explanation/drift.md.

It knows what no user knows: the true log-odds z(f) of a score, up to a constant and a factor. The model is

    logit P(true | f) = a + b z(f)             in the calibration sample,
    logit P(true | f) = a + b z(f) + shift     among the new triples,

and the test is the likelihood ratio of shift = 0. a and b are fitted on both samples, so the test counts the
uncertainty of the calibration sample.
"""

import numpy as np
from scipy.special import logit
from scipy.stats import norm, t

from kgcore.calibrate.sample import CalibrationSample
from kgcore.wings.monitoring.two_samples import GroupedRows, fit

WIDE = 30.0  # standard deviation of the priors, which only keep the fit finite
Z = {
    "normal": lambda f: 2 * f,
    "unequal spread": lambda f: norm.logpdf(f, 1.5, 0.6) - norm.logpdf(f, -1, 1.4),
    "heavy tails": lambda f: t.logpdf(f - 1.5, 2) - t.logpdf(f + 1.5, 2),
    "well separated": lambda f: 4 * f,
    "ties": lambda f: 2 * f,
}


def signed_root(
    world: str, sample: CalibrationSample, new: tuple[np.ndarray, np.ndarray], rate: float, error: float
) -> float:
    """Return the signed root of the likelihood ratio of shift = 0: about standard normal without a shift.

    new    scores and labels of the new triples
    rate   base rate of the calibrator. With corruptions, the calibration sample has another one: an offset
    error  standard error of the log-odds of the base rate; 0: it is exact
    """
    scores, labels = np.r_[sample.scores, new[0]], np.r_[sample.labels, new[1]]
    is_new = np.r_[np.zeros(len(sample.scores)), np.ones(len(new[0]))]
    offset = (1 - is_new) * (logit(sample.labels.mean()) - logit(rate))
    z = Z[world](scores) + logit(rate)
    columns, deviations = [np.ones_like(z), z], [WIDE, WIDE]
    if error:
        columns, deviations = [*columns, 1 - is_new], [*deviations, error]
    rows = GroupedRows(np.stack([*columns, is_new], axis=1), offset, np.ones_like(z), labels)
    precision, last = np.array([*deviations, WIDE]) ** -2.0, len(columns)
    without, moved = (fit(rows, np.arange(count), precision) for count in (last, last + 1))
    return float(np.sign(moved.values[-1]) * np.sqrt(2 * max(0.0, without.loss - moved.loss)))
