"""The calibration triples behind a probability, and the calibration curve of a predicate.

The triples are those of the predicate and, among them, those with a similar score. The curve is the probability with
its interval over the score.
"""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Scores
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.sample import CalibrationSample, shift
from kgcore.calibrate.support import exact_limits

FEWEST_SIMILAR = 20  # calibration triples with a similar score, if the predicate has as many
FEWEST_IN_A_BIN = 10  # calibration triples
HISTOGRAM_BARS = 40
POINTS = 201  # scores of a curve, at equal distances
QUANTILES = 5  # bins end at these quantiles of the true and of the false triples


@dataclass(frozen=True)
class TrueShare:
    """The share of true triples among some calibration triples.

    positives, negatives  numbers of true and of false triples
    lowest, highest       the range of their scores
    median                the median of their scores
    share                 share of true triples, at the base rate of the calibrator, in [0, 1]
    low, high             its 95 % confidence interval (Clopper & Pearson 1934), in [0, 1]. Triples count as
                          independent, although the corruptions of one positive are not
    """

    positives: int
    negatives: int
    lowest: float
    highest: float
    median: float
    share: float
    low: float
    high: float


@dataclass(frozen=True)
class ScoreHistogram:
    """How many true and false calibration triples of a predicate have which scores.

    edges                 (HISTOGRAM_BARS + 1,) ascending scores at equal distances: see `_central_range`
    positives, negatives  (HISTOGRAM_BARS,) numbers of true and of false triples between two edges
    """

    edges: tuple[float, ...]
    positives: tuple[int, ...]
    negatives: tuple[int, ...]


@dataclass(frozen=True)
class CalibrationEvidence:
    """The calibration triples of a predicate, seen from the score of one triple.

    positives, negatives              numbers of true and of false calibration triples of the predicate
    positives_below, negatives_below  numbers of those with a lower score; an equal score counts half
    similar                           the triples of the nearest scores: n^(2/3) of the n triples of the predicate, as
                                      in kgcore/calibrate/support.py, but at least FEWEST_SIMILAR
    bins                              the triples of the predicate divided by their scores, in ascending order
    histogram                         their numbers, for a picture
    """

    positives: int
    negatives: int
    positives_below: float
    negatives_below: float
    similar: TrueShare
    bins: tuple[TrueShare, ...]
    histogram: ScoreHistogram


def evidence_of(
    sample: CalibrationSample, predicate: int, score: float, base_rate: float
) -> CalibrationEvidence | None:
    """Return the evidence for the score of a triple of a predicate; None if the sample has no triples of the predicate.

    sample     the sample that the calibrator was fitted on, with predicates
    base_rate  base rate of the calibrator, in (0, 1)

    The share of true triples among the rows of a predicate depends on the number of corruptions for each positive. So
    its odds are multiplied by the mean weight of the predicate's positives and divided by that of its negatives, and
    then moved from the base rate of the sample to that of the calibrator.
    """
    if sample.predicates is None or not (rows := sample.predicates == predicate).any():
        return None
    order = np.argsort(sample.scores[rows], kind="stable")
    scores, labels = sample.scores[rows][order], sample.labels[rows][order]
    rates = _unweighted(sample, rows), base_rate
    true, false = scores[labels == 1], scores[labels == 0]
    near = _nearest(scores, score)
    bins = tuple(_share(scores[start:stop], labels[start:stop], *rates) for start, stop in _bins(scores, labels))
    below, below_false = (
        float((scores_of_label < score).sum() + (scores_of_label == score).sum() / 2)
        for scores_of_label in (true, false)
    )
    similar = _share(scores[near], labels[near], *rates)
    edges = np.histogram_bin_edges([], HISTOGRAM_BARS, _central_range(true, false))
    counts = (tuple(np.histogram(scores_of_label, edges)[0].tolist()) for scores_of_label in (true, false))
    histogram = ScoreHistogram(tuple(edges.tolist()), *counts)
    return CalibrationEvidence(len(true), len(false), below, below_false, similar, bins, histogram)


def _central_range(true: Scores, false: Scores) -> tuple[float, float]:
    """Return the scores between which 98 % of the true and 98 % of the false triples lie. One array may be empty."""
    ends = np.concatenate([np.quantile(scores, (0.01, 0.99)) for scores in (true, false) if len(scores)])
    return float(ends.min()), float(ends.max())


def _unweighted(sample: CalibrationSample, rows: Bools) -> float:
    """Return the base rate that some rows of a sample would show without their weights, if it is the base rate.

    It is the r with odds(r) = odds(base rate) (mean weight of negatives) / (mean weight of positives). A label without
    of these rows has the mean weight of all its rows.
    """
    true = sample.labels == 1
    positive, negative = (
        sample.weights[rows & label if (rows & label).any() else label].mean() for label in (true, ~true)
    )
    odds = sample.base_rate / (1 - sample.base_rate) * negative / positive
    return float(odds / (1 + odds))


def _nearest(scores: Floats, score: float) -> Ints:
    """Return the positions of the scores (n,) nearest to `score`: n^(2/3), or all that are as near as the last one."""
    size = min(len(scores), max(FEWEST_SIMILAR, round(len(scores) ** (2 / 3))))
    distances = np.abs(scores - score)
    return np.flatnonzero(distances <= np.partition(distances, size - 1)[size - 1])


def _bins(scores: Floats, labels: Floats) -> list[tuple[int, int]]:
    """Divide ascending scores (n,) into ranges of positions. A bin has at least FEWEST_IN_A_BIN scores, if there are.

    A bin ends at a quantile of the true or of the false triples' scores, so that no label is in one bin only. Equal
    scores are in the same bin.
    """
    levels = np.linspace(0, 1, QUANTILES + 1)[1:-1]
    inner = [np.quantile(scores[labels == label], levels) for label in (0, 1) if (labels == label).any()]
    starts = [0]
    for stop in np.searchsorted(scores, np.unique(np.concatenate(inner))).tolist():
        if min(stop - starts[-1], len(scores) - stop) >= FEWEST_IN_A_BIN:
            starts.append(stop)
    return list(zip(starts, [*starts[1:], len(scores)], strict=True))


def _share(scores: Floats, labels: Floats, sample_rate: float, base_rate: float) -> TrueShare:
    """Return the share of true triples among rows with these ascending scores (n,) and labels (n,).

    sample_rate  the base rate without weights: see `_unweighted`
    """
    n, positives = len(labels), int(labels.sum())
    share, low, high = shift(np.array([positives / n, *exact_limits(positives, n)]), sample_rate, base_rate).tolist()
    middle = float(np.median(scores))
    return TrueShare(positives, n - positives, float(scores[0]), float(scores[-1]), middle, share, low, high)


@dataclass(frozen=True)
class CalibrationCurve:
    """What a calibrator makes of a range of scores, for one predicate.

    scores         ascending; the score of the explained triple is one of them
    probabilities  their probabilities, in [0, 1]
    low, high      the 95 % confidence intervals of the probabilities; empty if the calibrator has none
    """

    scores: tuple[float, ...]
    probabilities: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def curve_of(
    calibrator: Calibrated, sample: CalibrationSample | None, predicate: int, score: float
) -> CalibrationCurve | None:
    """Return the curve of a predicate around the score of a triple.

    The range holds 98 % of the true and 98 % of the false calibration triples of the predicate, or of all predicates
    if it has none, and the score. None if neither the sample nor the calibrator tells a range of scores.
    """
    ends = _range(calibrator, sample, predicate)
    if ends is None:
        return None
    grid = np.unique(np.r_[np.linspace(min(ends[0], score), max(ends[1], score), POINTS), score])
    predicates = np.full(len(grid), predicate)
    q = calibrator.predict(grid, calibrator.model, predicates)
    if calibrator.support is None:
        return CalibrationCurve(tuple(grid.tolist()), tuple(q.tolist()), (), ())
    low, high = calibrator.interval(grid, q, predicates)
    return CalibrationCurve(*(tuple(column.tolist()) for column in (grid, q, low, high)))


def _range(calibrator: Calibrated, sample: CalibrationSample | None, predicate: int) -> tuple[float, float] | None:
    """Return the lowest and the highest score that the curve must show; None if they are not known."""
    if sample is None:
        if calibrator.support is None:
            return None
        points = calibrator.support.band.scores
        return float(points[0]), float(points[-1])
    scores, labels = sample.scores, sample.labels
    if sample.predicates is not None and (rows := sample.predicates == predicate).any():
        scores, labels = scores[rows], labels[rows]
    return _central_range(scores[labels == 1], scores[labels == 0])
