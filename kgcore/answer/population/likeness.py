"""How like the triples of a file are to the triples that a calibrator was fitted to: a two-sample test on evidence.

Boosted trees learn to tell the rows of a file from calibration triples of the same predicates (Lopez-Paz & Oquab, ICLR
2017: classifier two-sample tests), and the scores are compared, too: they show best that the file has another share
of true rows. If neither differs, the calibrator is right for the file as it is.

If they can, no weights of labelled calibration triples are right for the file without a further assumption. If true
rows are like true calibration triples, the file has the density f = alpha f+ + (1 - alpha) g. For any smaller share
alpha' there is such a g, too: that of false rows that are more like true ones. So a file shows an upper limit of the
share of its true rows, and no lower one (Blanchard, Lee & Scott, JMLR 2010).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.arrays import Bools, Floats, Ints, Probabilities, Scores, Triples, Weights
from kgcore.combiners.base import CombinedModel, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.config import EvidenceConfig
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Mixture, corrupt, subject_shares
from kgcore.errors import InputError
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.scores.table import Evidence

SEED = 0  # of the comparison, which is the same for the same file
FOLDS = 3  # of subjects, and of objects
Z = 2.576  # standard errors of the limits: 99 %
ALIKE = 0.52  # an AUROC that is not above it is no difference
SHIFTED = 0.01  # an AUROC of the scores that is so far from 1/2 is no difference
MOST_ROWS = 4_000  # rows of the file, and calibration triples, that are compared
FEWEST, FOR_A_ROW = 1_000, 10  # calibration triples that are compared; more make the error hardly smaller
FEWEST_OF_A_PREDICATE = 5  # of these, on average
LEAST = 0.001  # share of true triples, and of false ones


@dataclass(frozen=True)
class SampleDifference:
    """How far a file is from calibration triples.

    auroc      AUROC of trees that tell the file from the calibration triples; 0.5: they are alike
    low, high  its 99 % limits; rows with a common subject or object are dependent
    by_score   AUROC of the calibrator's own scores, which tells another share of true rows best: below 0.5, the file
               has fewer
    within     half of the width of its 99 % limits
    """

    auroc: float
    low: float
    high: float
    by_score: float = 0.5
    within: float = 0.0

    @property
    def alike(self) -> bool:
        """Whether the file is not shown to differ from the calibration triples."""
        return self.low <= ALIKE and not self._shifted

    @property
    def _shifted(self) -> bool:
        return abs(self.by_score - 0.5) > SHIFTED + self.within

    def __str__(self) -> str:
        text = f"AUROC {self.auroc:.2f} [{self.low:.2f}, {self.high:.2f}] of trees that tell them apart"
        ends = self.by_score - self.within, self.by_score + self.within
        return text + self._shifted * f", {self.by_score:.2f} [{ends[0]:.2f}, {ends[1]:.2f}] of the scores"


@dataclass(frozen=True)
class CalibrationTriples:
    """Triples like those that a calibrator was fitted to, drawn anew: facts of validation, and negatives.

    model  the calibrated model, fitted to labelled negatives or to corruptions
    """

    model: CalibratedModel

    def difference(self, rows: Triples, base_rate: float | None) -> SampleDifference:
        """Compare the unknown triples (n, 3) of a file with calibration triples of their predicates.

        base_rate  share of true ones among both, in (0, 1); None: the share by which they differ least, by `true_share`

        Raises InputError if all corruptions of the validation facts are known facts.
        """
        rng = np.random.default_rng(SEED)
        rows = rng.permutation(rows)[:MOST_ROWS]
        triples, truth = self.drawn(rows[:, 1], rng)
        if base_rate is None:
            model = self.model.trained.embedding_models[0]
            base_rate = true_share((rows, model.score(rows)), (triples, model.score(triples)), truth)
        labelled = self.model.graph.valid.truth if self.model.calibrator.corruptions is None else truth
        rate = float(np.clip(labelled.sum() / max(1, len(labelled)), LEAST, 1 - LEAST))
        weights = truth * base_rate / rate + (1 - truth) * (1 - base_rate) / (1 - rate)
        triples, weights = _thinned(triples, weights, rows, rng)
        of_rows, of_triples = self._evidence(rows), self._evidence(triples)
        found = difference((rows, of_rows), (triples, of_triples), weights, rng)
        scores = self._scores(rows, of_rows), self._scores(triples, of_triples)
        auroc, error = separation_of_scores((rows, scores[0]), (triples, scores[1]), weights)
        return replace(found, by_score=auroc, within=Z * error)

    def drawn(self, predicates: Ints, rng: np.random.Generator) -> tuple[Triples, Probabilities]:
        """Draw calibration triples (m, 3) of some predicates, with their truth (m,): 1, 0, or a confidence.

        The negatives are the labelled ones, or corruptions of the strategy that the calibrator was fitted to. No
        negative is a fact of test, because no row that is compared is a stored fact.
        """
        graph, bound = self.model.graph, self.model.calibrator
        validation = graph.valid.part(np.isin(graph.valid.triples[:, 1], predicates))
        triples, truth = validation.triples, validation.truth
        if bound.corruptions is None:
            return triples, truth
        chosen = rng.permutation(np.flatnonzero(truth > 0))[:MOST_ROWS]
        facts, sides = triples[chosen], subject_shares(graph, bound.corruptions.sides)
        eta = -(-MOST_ROWS // max(1, len(facts)))
        false = corrupt(facts, eta, self._strategy, rng, sides, graph.all_known).triples
        return np.concatenate([facts, false]), np.r_[truth[chosen], np.zeros(len(false))]

    def _evidence(self, triples: Triples) -> Evidence:
        trained = self.model.trained
        return trained.evidence(triples) if isinstance(trained, CombinedModel) else self._features.evidence(triples)

    def _scores(self, triples: Triples, evidence: Evidence) -> Scores:
        """Return what the calibrator sees of the triples (n, 3)."""
        trained = self.model.trained
        if isinstance(trained, CombinedModel):
            return trained.combined.scores(evidence, triples[:, 1])
        return trained.score(triples)

    @cached_property
    def _features(self) -> Features:
        first, *others = self.model.trained.embedding_models
        return Features.of(Source(self.model.graph, first, tuple(others)), EvidenceConfig().evidence)

    @cached_property
    def _strategy(self) -> Mixture:
        assert self.model.calibrator.corruptions is not None
        strategy = Mixture(self.model.graph, self.model.calibrator.corruptions.strategy)
        if strategy.by_model:
            strategy.see(self.model.trained.embedding_models[0])
        return strategy


def true_share(rows: tuple[Triples, Scores], calibration: tuple[Triples, Scores], truth: Probabilities) -> float:
    """Estimate the share of true ones among the rows of a file, if true and false ones score as those of calibration.

    rows, calibration  (n, 3) and (m, 3) triples, and their scores; truth (m,) of the second ones

    Let t be the share of the false calibration triples of the same predicate that score less. The mean of t over the
    rows lies between that of false and that of true calibration triples as the share lies between 0 and 1 (Forman 2008,
    adjusted count).
    """
    true, excess, most = truth >= 0.5, 0.0, 0.0
    for predicate in np.unique(rows[0][:, 1]).tolist():
        scores, is_predicate = rows[1][rows[0][:, 1] == predicate], calibration[0][:, 1] == predicate
        facts, false = calibration[1][is_predicate & true], np.sort(calibration[1][is_predicate & ~true])
        if not len(facts) or not len(false):
            continue
        t = [sum(np.searchsorted(false, z, side).mean() for side in ("left", "right")) for z in (scores, facts)]
        excess, most = (
            total + len(scores) * (z / (2 * len(false)) - 0.5) for total, z in zip((excess, most), t, strict=True)
        )
    return float(np.clip(excess / most, LEAST, 1 - LEAST)) if most > 0 else 0.5


def _thinned(triples: Triples, weights: Weights, rows: Triples, rng: np.random.Generator) -> tuple[Triples, Weights]:
    """Draw some of triples (n, 3) with weights (n,): more of the predicates that the rows have more often."""
    most = min(MOST_ROWS, max(FEWEST, FOR_A_ROW * len(rows)))
    size = int(max(triples[:, 1].max(initial=0), rows[:, 1].max())) + 1
    number, mass = np.bincount(triples[:, 1], minlength=size), np.bincount(triples[:, 1], weights, size)
    share = np.bincount(rows[:, 1], minlength=size) / np.maximum(mass, 1e-300)
    weights = weights * share[triples[:, 1]]
    few = FEWEST_OF_A_PREDICATE / np.maximum(number, 1)[triples[:, 1]]
    chances = np.minimum(1.0, np.maximum(most * weights / max(weights.sum(), 1e-300), few))
    chosen = (rng.random(len(weights)) < chances) & (weights > 0)
    return triples[chosen], weights[chosen] / chances[chosen]


def difference(
    rows: tuple[Triples, Evidence], calibration: tuple[Triples, Evidence], weights: Weights, rng: np.random.Generator
) -> SampleDifference:
    """Compare the rows of a file with calibration triples.

    rows         (n, 3) triples of the file, and their evidence
    calibration  (m, 3) triples, and their evidence
    weights      (m,) weights of these triples, above 0

    Each predicate of the calibration triples is weighted to its share of the file. A triple is judged by trees that
    have seen neither its subject nor its object: an entity that both samples or one of them often have is no
    difference. Raises InputError if they have no common predicate.
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
        raise InputError("the file and the calibration triples have no common predicate")
    sample = _matched(sample.part(used))
    z = _judged(sample, _entity_folds(sample, triples[used], rng), rng)
    auroc, error = separation(z, sample.labels == 1, sample.weights, triples[used])
    return SampleDifference(auroc, auroc - Z * error, auroc + Z * error)


def separation_of_scores(
    rows: tuple[Triples, Scores], calibration: tuple[Triples, Scores], weights: Weights
) -> tuple[float, float]:
    """Return the AUROC of scores that tell the rows of a file from calibration triples, and its standard error.

    rows, calibration  (n, 3) and (m, 3) triples, and their scores
    weights            (m,) weights of these triples, above 0

    Each predicate of the calibration triples is weighted to its share of the file. It has more power than trees against
    another share of true rows, because it fits nothing.
    """
    triples, z = (np.concatenate(parts) for parts in zip(rows, calibration, strict=True))
    n, m = len(rows[0]), len(calibration[0])
    labels, weights = np.r_[np.ones(n), np.zeros(m)], np.r_[np.ones(n), weights]
    sample = EvidenceSample(("score",), z[:, None], labels, weights, triples[:, 1])
    sample = _matched(sample.part(used := _common(sample)))
    return separation(z[used], sample.labels == 1, sample.weights, triples[used])


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
    for members in (is_row, ~is_row):
        other = np.sort(z[~members])
        mass = np.r_[0.0, np.cumsum(weights[~members][np.argsort(z[~members], kind="stable")])]
        below, upto = (mass[np.searchsorted(other, z[members], side)] for side in ("left", "right"))
        placement[members] = (below + upto) / (2 * mass[-1])
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
            rows = (folds == held[:, None]).all(axis=0)
            z[rows] = trees.log_odds(sample.values[rows], sample.predicates[rows])
    return z
