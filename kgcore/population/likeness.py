"""How like the triples of a file are to the triples that a calibrator was fitted to: a two-sample test on evidence.

Boosted trees learn to tell the rows of a file from calibration triples of the same predicates (Lopez-Paz & Oquab, ICLR
2017: classifier two-sample tests). If they cannot, the calibrator is right for the file as it is. If they can, their
odds are the density ratio w = f_file / f_calibration of the evidence, up to a constant. Calibration triples that count
w times are distributed like the file (Shimodaira 2000), as long as the file has no triples of a kind that calibration
lacks. This mends covariate shift only: triples with the same evidence must be as often true in the file.
"""

from dataclasses import dataclass, replace

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Scores, Triples, Weights
from kgcore.calibration.platt import Platt
from kgcore.calibration.sample import CalibrationSample
from kgcore.combiners.base import EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.evidence.table import Evidence

FOLDS, RATIO_FOLDS = 3, 5  # of subjects, and of objects, for the test; of rows, for density ratios
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
    n, m = len(rows[0]), len(calibration[0])
    triples = np.concatenate([rows[0], calibration[0]])
    sample = EvidenceSample(
        tuple(f"{name} " for name in rows[1].names),  # trees are monotone in what is called `score`
        np.concatenate([rows[1].values, calibration[1].values]),
        np.r_[np.ones(n), np.zeros(m)],
        np.r_[np.ones(n), weights],
        triples[:, 1],
    )
    used = _common(sample)
    if not len(used):
        return Likeness(1.0, 1.0, 1.0, np.zeros(m), 0.0, 1.0)
    sample, w = _matched(sample.part(used)), np.zeros(n + m)
    is_row = sample.labels == 1
    auroc, error = separation(
        _judged(sample, _entity_folds(sample, triples[used], rng), rng), is_row, sample.weights, triples[used]
    )
    ratio = np.ones(len(used))
    if auroc - Z * error > ALIKE:
        z = _judged(sample, rng.integers(RATIO_FOLDS, size=(1, len(used))), rng)
        q = Platt().fit_sample(CalibrationSample(z, sample.labels, sample.weights)).calibrate(z)
        ratio = q / np.maximum(1 - q, 1e-12)
    w[used] = np.where(is_row, 0.0, sample.weights * np.minimum(ratio, LARGEST))
    effective, outside = float(w.sum() ** 2 / (w**2).sum()), 1 - float((ratio[is_row] <= LARGEST).sum()) / n
    return Likeness(auroc, auroc - Z * error, auroc + Z * error, w[n:], effective, outside)


def _common(sample: EvidenceSample) -> Ints:
    """Return the rows of a sample whose predicate both the file and the calibration triples have."""
    is_row = sample.labels == 1
    common = np.intersect1d(sample.predicates[is_row], sample.predicates[~is_row])
    return np.flatnonzero(np.isin(sample.predicates, common))


def _matched(sample: EvidenceSample) -> EvidenceSample:
    """Return the sample in which the predicates have the shares of the file among the calibration triples, too."""
    is_row = sample.labels == 1
    of_rows = np.bincount(sample.predicates[is_row])
    of_others = np.bincount(sample.predicates, np.where(is_row, 0.0, sample.weights))
    weights = np.where(is_row, 1.0, sample.weights * (of_rows / np.maximum(of_others, 1e-300))[sample.predicates])
    return replace(sample, weights=weights / weights.mean())


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
    of_subjects, of_objects, of_both = (
        float((np.bincount(np.unique(triples[:, sides], axis=0, return_inverse=True)[1].ravel(), influence) ** 2).sum())
        for sides in ([SUBJECT], [OBJECT], [SUBJECT, OBJECT])
    )
    return auroc, float(np.sqrt(max(of_subjects + of_objects - of_both, of_both)))


def _entity_folds(sample: EvidenceSample, triples: Triples, rng: np.random.Generator) -> Ints:
    """Return the folds (2, n) of the subject and of the object of each triple.

    A side whose most frequent entity has more than a fold of the file is not divided: then the file is about it.
    """
    folds = np.zeros((2, len(triples)), dtype=np.int64)
    for place, side in enumerate((SUBJECT, OBJECT)):
        _, number = np.unique(triples[:, side], return_inverse=True)
        of_file = np.bincount(number[sample.labels == 1])
        if of_file.max() <= of_file.sum() / FOLDS:
            folds[place] = rng.integers(FOLDS, size=int(number.max()) + 1)[number]
    return folds[folds.any(axis=1)] if folds.any() else rng.integers(FOLDS, size=(1, len(triples)))


def _judged(sample: EvidenceSample, folds: Ints, rng: np.random.Generator) -> Floats:
    """Return log-odds (n,) of rows by trees that have seen no row with one of its folds (k, n)."""
    z = np.zeros(len(sample))
    for held in np.unique(folds, axis=1).T:
        seen = np.flatnonzero((folds != held[:, None]).all(axis=0))
        if len(kept := seen[_common(sample.part(seen))]):
            trees = BoostedTrees(trees=60, leaves=8, rate=0.1).fit(_matched(sample.part(kept)), rng)
            own = (folds == held[:, None]).all(axis=0)
            z[own] = trees.log_odds(sample.values[own], sample.predicates[own])
    return z
