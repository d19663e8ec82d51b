"""Temperature scaling: the score, taken as a log-odds, is divided by one number."""

from typing import Self

import numpy as np
from scipy.special import expit

from kgcore.arrays import Probabilities, Scores
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.logistic import fit_logistic, smoothed_targets
from kgcore.calibrate.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("temperature")
class Temperature(Calibrator):
    """Temperature scaling: q = sigmoid(f / T), T > 0. T minimises the weighted log loss.

    Guo, Pleiss, Sun & Weinberger, ICML 2017.

    T = 1 gives the probabilities without calibration, so the fit never raises the log loss on the sample. The ranking
    and the decisions at 0.5 do not change. A score of 0 always has probability 1/2, whatever the base rate, so the mean
    probability matches the base rate only by chance. If all scores of a model have one sign, as distances do, q is
    above 1/2 for all triples or for none. Use temperature scaling for scores that are log-odds already, and Platt
    scaling for other scores.

    inverse_  1 / T, at least 0. If no finite T has a lower loss than the constant 1/2, inverse is 0 and q = 1/2.

    If all positives have scores >= 0 and all negatives have scores <= 0, the loss keeps falling as T falls to 0. T then
    minimises the loss against Platt's smoothed targets (see `smoothed_targets`), and is at most 1. Raises FitError if
    the fit does not converge.
    """

    fitted = ("inverse",)
    inverse_: float

    def fit_sample(self, sample: CalibrationSample) -> Self:
        f, y, w = sample.scores, sample.labels, sample.weights
        size = float(np.sqrt(np.average(f**2, weights=w)))
        if size == 0:
            return self.set_fitted(inverse=1.0)
        separates = bool((f[y == 1] >= 0).all() and (f[y == 0] <= 0).all())
        targets = smoothed_targets(y, sample.counts) if separates else y
        start, bounded = np.zeros(1), np.ones(1, dtype=bool)
        [inverse] = fit_logistic("temperature scaling", f[None] / size, targets, w, start, bounded).tolist()
        return self.set_fitted(inverse=max(1.0, inverse / size) if separates else inverse / size)

    def calibrate(self, scores: Scores) -> Probabilities:
        with np.errstate(over="ignore"):  # sigmoid(inf) is 1
            q: Probabilities = expit(self.inverse_ * np.asarray(scores, dtype=np.float64))
        return q
