"""Temperature scaling: the score as a log-odds, made more or less confident."""

from typing import Any, Self

import numpy as np
from scipy.special import expit

from kgcore.arrays import Probabilities, Scores
from kgcore.calibration.base import Calibrator
from kgcore.calibration.logistic import fit_logistic, smoothed_targets
from kgcore.calibration.sample import CalibrationSample
from kgcore.registries import CALIBRATORS


@CALIBRATORS.register("temperature")
class Temperature(Calibrator):
    """q = sigmoid(f / T), T > 0 minimising the weighted log loss. Guo, Pleiss, Sun & Weinberger, ICML 2017.

    T = 1 is the uncalibrated score, so on its sample the log loss is never worse than that. Nothing else moves: a score
    of 0 has probability 1/2 whatever the base rate is, the ranking and the decisions at 0.5 stay as they are, and a
    base rate is reached only where the scores happen to be centred on it. A model whose scores have one sign, such as a
    distance, never crosses 1/2. Use it for scores that are log-odds already; for others Platt scaling.

    inverse  1 / T, at least 0: where no finite T is best (the scores say less than nothing), it is 0 and q = 1/2

    Where the sign of the score separates the labels, the loss falls for ever as T does; T then minimises it against
    Platt's smoothed targets (unweighted counts), and is at most 1. Raises FitError when the fit does not converge.
    """

    def __init__(self, inverse: float) -> None:
        self.inverse = inverse

    @classmethod
    def fit(cls, sample: CalibrationSample) -> Self:
        f, y, w = sample.scores, sample.labels, sample.weights
        size = float(np.sqrt(np.average(f**2, weights=w)))
        if size == 0:
            return cls(1.0)
        separates = bool((f[y == 1] >= 0).all() and (f[y == 0] <= 0).all())
        targets = smoothed_targets(y) if separates else y
        start, bounded = np.zeros(1), np.ones(1, dtype=bool)
        [inverse] = fit_logistic("temperature scaling", f[None] / size, targets, w, start, bounded).tolist()
        return cls(max(1.0, inverse / size) if separates else inverse / size)

    def predict(self, scores: Scores) -> Probabilities:
        with np.errstate(over="ignore"):  # sigmoid(inf) is 1
            q: Probabilities = expit(self.inverse * np.asarray(scores, dtype=np.float64))
        return q

    def parameters(self) -> dict[str, Any]:
        return {"inverse": self.inverse}
