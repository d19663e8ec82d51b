"""The audit of a calibration sample: the overlap of its scores, and its effective sample size."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kgcore.calibration.sample import CalibrationSample


@dataclass(frozen=True)
class ScoreAudit:
    """Two figures of a calibration sample.

    overlap                P(f(t-) > f(t+)) + P(f(t-) = f(t+)) / 2 = 1 - AUROC, in [0, 1], unweighted. 0: the model
                           scores every positive above every negative. 0.5: it cannot separate them. If synthetic
                           negatives overlap far less than labelled negatives, they are easier than real mistakes, and
                           the probabilities are too confident.
    effective_sample_size  (sum w)^2 / sum w^2 (Kish 1965): the number of equally weighted rows with the same
                           information
    """

    overlap: float
    effective_sample_size: float

    def to_json(self) -> dict[str, Any]:
        """The two figures by name."""
        return asdict(self)


def score_audit(sample: CalibrationSample) -> ScoreAudit:
    """Compute the audit of a sample."""
    is_positive = sample.labels == 1
    positives, negatives = np.sort(sample.scores[is_positive]), sample.scores[~is_positive]
    below, up_to = (np.searchsorted(positives, negatives, side) for side in ("left", "right"))
    overlap = (below + (up_to - below) / 2).mean() / len(positives)
    weights = sample.weights
    return ScoreAudit(float(overlap), float(weights.sum() ** 2 / (weights**2).sum()))
