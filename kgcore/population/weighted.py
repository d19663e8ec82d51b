"""A calibrator that is fitted to labelled calibration triples, weighted to be like the triples of a file.

The weights make the evidence of calibration triples that of the file. The labels then give the right probabilities if
triples with the same evidence are as often true in the file: covariate shift (Shimodaira 2000). Mistakes of another
kind break this, and no weight mends it. So the rows that count as true are compared with the true calibration triples:
mistakes among them show, because true rows are like other true triples of their predicates.
"""

from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Probabilities, Scores, Triples
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.fit import support_of
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import shift
from kgcore.config import ESTIMATED
from kgcore.evidence.table import Evidence
from kgcore.population.likeness import Likeness, likeness

STEPS, TINY = 500, 1e-6


@dataclass(frozen=True)
class Weighted:
    """A calibrator for a file.

    bound   the calibrator. The ends of its base rate are those if only the evidence has shifted, and if only the share
            of true triples has
    check   how like the rows that count as true are to the true calibration triples
    """

    bound: BoundCalibrator
    check: Likeness


def fit_weighted(
    bound: BoundCalibrator,
    sample: CalibrationSample,
    calibration: tuple[Triples, Evidence],
    rows: tuple[Triples, Evidence],
    scores: Scores,
    rng: np.random.Generator,
) -> Weighted:
    """Fit the calibrator to a weighted sample, and check it on the rows of a file.

    bound        a calibrator that was fitted to labels
    sample       its sample (m), with the weights of `Likeness`, above 0
    calibration  the triples (m, 3) of the sample, and their evidence
    rows         (n, 3) triples of the file, and their evidence; scores (n,) of them

    Raises FitError if all labels are equal, or if a fit does not converge.
    """
    fitted = type(bound.calibrator)().fit_sample(sample)
    q = fitted.calibrate_of(scores, rows[0][:, 1])
    rate = float(q.mean())
    shifted = share_of_true(bound.predict(scores, bound.model, rows[0][:, 1]), bound.base_rate)
    weighted = replace(
        bound,
        calibrator=fitted,
        base_rate=rate,
        fitted_at=None,
        base_rate_is=ESTIMATED,
        support=support_of(sample, fitted.by_predicate),
        limits=(min(rate, shifted), max(rate, shifted)),
    )
    likely, true = np.flatnonzero(rng.random(len(q)) < q), np.flatnonzero(sample.labels == 1)
    expected, known = (
        (triples[chosen], evidence.rows(chosen))
        for (triples, evidence), chosen in ((rows, likely), (calibration, true))
    )
    return Weighted(weighted, likeness(expected, known, np.ones(len(true)), rng))


def share_of_true(probabilities: Probabilities, base_rate: float) -> float:
    """Estimate the share of true triples among triples with probabilities (n,) for a base rate, in (0, 1).

    It is the share r with mean shift(q, base_rate, r) = r, found by the steps of Saerens et al. (2002). It is
    right if true and false triples are each like those of the fit, and only their shares differ.
    """
    rate, inner = base_rate, probabilities.clip(TINY, 1 - TINY)
    for _ in range(STEPS):
        new = float(np.clip(shift(inner, base_rate, rate).mean(), TINY, 1 - TINY))
        if abs(new - rate) < TINY:
            break
        rate = new
    return rate
