"""How like the triples of a file are to the triples that a calibrator was fitted to: a two-sample test on evidence.

Boosted trees learn to tell the rows of a file from calibration triples of the same predicates (Lopez-Paz & Oquab, ICLR
2017: classifier two-sample tests). If they cannot, the calibrator is right for the file as it is. If they can, their
odds are the density ratio w = f_file / f_calibration of the evidence, up to a constant. Calibration triples that count
w times are distributed like the file (Shimodaira 2000), as long as the file has no triples of a kind that calibration
lacks. This mends covariate shift only: triples with the same evidence must be as often true in the file.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Scores, Triples, Weights
from kgcore.calibration.platt import Platt
from kgcore.calibration.sample import CalibrationSample
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.evidence.table import Evidence

FOLDS = 3  # of subjects, and of objects
Z = 2.576  # standard errors of the limits: 99 %
ALIKE = 0.52  # an AUROC that is not above it is no difference
LARGEST = 20.0  # density ratio above which a row is outside the calibration triples
FEWEST_EFFECTIVE = 100.0  # calibration triples
MOST_OUTSIDE = 0.1  # share of the rows of a file


@dataclass(frozen=True)
class Likeness:
    """How like a file is to calibration triples.

    auroc      AUROC of trees that tell the file from the calibration triples; 0.5: they are alike
    low, high  its 99 % limits; rows with a common subject or object are dependent
    weights    (m,) weights with which the calibration triples are distributed like the file: density ratios, at most
               LARGEST; 0 if the file lacks the predicate
    effective  (sum w)^2 / sum w^2 of these weights (Kish 1965): the number of triples that they are worth
    outside    share of the rows of the file whose ratio is above LARGEST, or whose predicate calibration lacks
    """

    auroc: float
    low: float
    high: float
    weights: Weights
    effective: float
    outside: float

    @property
    def alike(self) -> bool:
        """Whether the file is not shown to differ from the calibration triples."""
        return self.low <= ALIKE and self.outside <= MOST_OUTSIDE

    @property
    def overlaps(self) -> bool:
        """Whether weighted calibration triples can stand for the file."""
        return self.effective >= FEWEST_EFFECTIVE and self.outside <= MOST_OUTSIDE

    def __str__(self) -> str:
        return (
            f"AUROC {self.auroc:.2f} [{self.low:.2f}, {self.high:.2f}] of trees that tell them apart, effective number "
            f"{self.effective:,.0f} of {len(self.weights):,}, {self.outside:.0%} of the rows are outside"
        )


def likeness(
    rows: tuple[Triples, Evidence], calibration: tuple[Triples, Evidence], weights: Weights, rng: np.random.Generator
) -> Likeness:
    """Compare the rows of a file with calibration triples.

    rows         (n, 3) triples of the file, and their evidence
    calibration  (m, 3) triples, and their evidence
    weights      (m,) weights of these triples, above 0

    Each predicate of the calibration triples is weighted to its share of the file. A triple is judged by trees that
    have seen neither its subject nor its object: an entity that both samples or one of them often have is no
    difference.
    """
    triples, is_row = np.concatenate([rows[0], calibration[0]]), np.arange(len(rows[0]) + len(weights)) < len(rows[0])
    every = np.where(is_row, 1.0, 0.0)
    every[~is_row] = matched(rows[0][:, 1], calibration[0][:, 1], weights)
    every[is_row] = np.isin(rows[0][:, 1], calibration[0][:, 1])
    used = every > 0
    if not every[is_row].any():
        return Likeness(1.0, 1.0, 1.0, np.zeros(len(weights)), 0.0, 1.0)
    sample = EvidenceSample(
        tuple(f"{name} " for name in rows[1].names),  # trees are monotone in what is called `score`
        np.concatenate([rows[1].values, calibration[1].values])[used],
        is_row[used].astype(np.float64),
        every[used] / every[used].mean(),
        triples[used, 1],
    ).balanced()
    z = _cross_fit(sample, triples[used], rng)
    auroc, error = separation(z, sample.labels == 1, sample.weights, triples[used])
    q = Platt().fit_sample(CalibrationSample(z, sample.labels, sample.weights)).calibrate(z)
    ratio, w = q / np.maximum(1 - q, 1e-12), every[~is_row]
    w[used[~is_row]] *= np.minimum(ratio[sample.labels == 0], LARGEST)
    outside = 1 - float((ratio[sample.labels == 1] <= LARGEST).sum()) / len(rows[0])
    return Likeness(auroc, auroc - Z * error, auroc + Z * error, w, float(w.sum() ** 2 / (w**2).sum()), outside)


def matched(of_rows: Ints, of_calibration: Ints, weights: Weights) -> Weights:
    """Return weights (m,) of calibration triples whose predicates have the shares that they have in a file."""
    size = 1 + max(int(of_rows.max(initial=0)), int(of_calibration.max(initial=0)))
    found = np.bincount(of_calibration, weights, size)
    factor = np.bincount(of_rows, minlength=size) / np.where(found > 0, found, 1.0)
    scaled: Weights = weights * factor[of_calibration]
    return scaled


def separation(z: Scores, is_row: Bools, weights: Weights, triples: Triples) -> tuple[float, float]:
    """Return the weighted AUROC of z (n,) for `is_row` (n,), and its standard error.

    The influence of a row on the AUROC is its placement among the rows of the other sample (DeLong et al. 1988). They
    are summed over rows with the same subject, and with the same object: two-way clusters (Cameron et al. 2011).
    """
    placement = np.empty(len(z))
    for own in (is_row, ~is_row):
        other = np.sort(z[~own])
        mass = np.r_[0.0, np.cumsum(weights[~own][np.argsort(z[~own], kind="stable")])]
        below, upto = (mass[np.searchsorted(other, z[own], side)] for side in ("left", "right"))
        placement[own] = (below + upto) / (2 * mass[-1])
    placement[~is_row] = 1 - placement[~is_row]
    auroc = float(np.average(placement[is_row], weights=weights[is_row]))
    share = np.where(is_row, weights / weights[is_row].sum(), weights / weights[~is_row].sum())
    influence = share * (placement - auroc)
    sums = [np.bincount(np.unique(triples[:, side], return_inverse=True)[1], influence) for side in (SUBJECT, OBJECT)]
    variance = sum(float((own**2).sum()) for own in sums) - float((influence**2).sum())
    return auroc, float(np.sqrt(max(variance, float((influence**2).sum()))))


def _cross_fit(sample: EvidenceSample, triples: Triples, rng: np.random.Generator) -> Floats:
    """Return log-odds (n,) by trees that have seen neither the subject nor the object of a row.

    A side whose most frequent entity has more than a fold of the file is not divided: then the file is about it.
    """
    fold = np.zeros((2, len(triples)), dtype=np.int64)
    for place, side in enumerate((SUBJECT, OBJECT)):
        _, number = np.unique(triples[:, side], return_inverse=True)
        of_file = np.bincount(number[sample.labels == 1])
        if of_file.max() <= of_file.sum() / FOLDS:
            fold[place] = rng.integers(FOLDS, size=int(number.max()) + 1)[number]
    z = np.zeros(len(triples))
    for held in np.unique(fold, axis=1).T:
        own = (fold == held[:, None]).all(axis=0)
        seen = ((fold != held[:, None]) | (fold.max(axis=1) == 0)[:, None]).all(axis=0)
        if fold.max() == 0:
            seen = rng.random(len(seen)) < 0.5
        if len(np.unique(sample.labels[seen])) == 2:
            trees = BoostedTrees(trees=60, leaves=8, rate=0.1).fit(sample.part(seen), rng)
            z[own] = trees.log_odds(sample.values[own], sample.predicates[own])
    return z
