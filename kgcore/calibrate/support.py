"""Confidence limits of shares and of calibrated probabilities, and what a calibration sample supports."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from scipy.special import betaincinv

from kgcore.arrays import Floats, Ints, Labels, Probabilities, Scores, Weights, as_floats, as_probabilities
from kgcore.calibrate.sample import CalibrationSample, label_sizes

CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2  # error level of one limit of an interval
MOST_POINTS = 512  # largest number of scores at which limits are stored
WINDOWS = (0.25, 1.0, 4.0)  # window sizes, in multiples of n^(2/3)
MOST_POINTS_OF_A_RELATION = 64


def lower_limits(successes: Floats | Ints, trials: Floats | Ints, level: float) -> Floats:
    """Return the exact lower limits (m,) of shares (Clopper & Pearson, Biometrika 26, 1934).

    Each exceeds the true share with the probability `level`.

    successes, trials  (m,) may be fractions
    """
    limits = betaincinv(np.where(successes > 0, successes, 1.0), trials - successes + 1, level)
    return np.where(successes > 0, limits, 0.0)


def exact_limits(successes: float, trials: float) -> tuple[float, float]:
    """Return both limits of a share: together they hold it with at least the probability CONFIDENCE."""
    low, not_high = lower_limits(np.array([successes, trials - successes]), np.full(2, trials), TAIL).tolist()
    return low, 1 - not_high


@dataclass(frozen=True)
class Band:
    """Pointwise confidence limits of the share of positives at a score.

    The only assumption is that this share, q(f), is non-decreasing in the score f. Then the share in a window of rows
    with scores up to f is at most q(f) in expectation, so a lower confidence limit of the window's share is a lower
    limit of q(f). In the same way a window of rows with scores from f gives an upper limit. The limits of a window are
    those of Clopper & Pearson (Biometrika 26, 1934). Three windows are used, of n^(2/3) / 4, n^(2/3) and 4 n^(2/3)
    rows; the best of the three limits counts, each at a third of the error level (Bonferroni). The idea of averaging
    over windows under monotonicity is that of Yang & Barber (Electronic Journal of Statistics 13, 2019). Rows count
    as independent, although the corruptions of one positive are not.

    In a weighted sample, a window has as many positives and as many negatives as their effective counts, (sum w)^2 /
    sum w^2 (Kish 1965), and the weights of one such count move its limits to the base rate of the sample. If the weight
    of a row depends only on its label, the effective counts are the numbers of rows.

    scores  (m,) ascending
    low     (m,) lower limit for scores from scores_i up to the next one; below scores_0 it is 0
    high    (m,) upper limit for scores above the previous one up to scores_i; above the last score it is 1
    """

    scores: Floats
    low: Floats
    high: Floats

    @classmethod
    def fit(cls, sample: CalibrationSample, confidence: float = CONFIDENCE, most_points: int = MOST_POINTS) -> Self:
        """Compute the limits from a sample. Each of the two limits errs with probability (1 - confidence) / 2.

        most_points  largest number of scores at which limits are stored
        """
        order = np.argsort(sample.scores, kind="stable")
        scores, labels = sample.scores[order], sample.labels[order]
        n, sums = len(scores), LabelSums.of(labels, sample.weights[order])
        points = _points(scores, labels, most_points)
        first, last = (np.searchsorted(scores, points, side=side) for side in ("left", "right"))
        single = last - first == 1  # the row of a point is left out, because its label made it a point
        after, before = np.where(single, first, last), np.where(single, last, first)
        low, high = np.zeros(len(points)), np.ones(len(points))
        level = (1 - confidence) / 2 / len(WINDOWS)
        for multiple in WINDOWS:
            size = max(1, round(multiple * n ** (2 / 3)))
            start = np.searchsorted(scores, scores[np.maximum(after - size, 0)], side="left")  # whole groups of ties
            low = np.maximum(low, sums.lower_limits(1, start, after, level))
            stop = np.searchsorted(scores, scores[np.minimum(before + size, n) - 1], side="right")
            high = np.minimum(high, 1 - sums.lower_limits(0, before, stop, level))
        return cls(points, low, high)

    def limits(self, scores: Scores) -> tuple[Probabilities, Probabilities]:
        """Return the lower and the upper limit (n,) at scores (n,).

        Where the sample contradicts monotonicity, the limit from the rows below a score can be above the limit from the
        rows above it. Then the interval reaches from one to the other.
        """
        below = np.r_[0.0, self.low][np.searchsorted(self.scores, scores, side="right")]
        above = np.r_[self.high, 1.0][np.searchsorted(self.scores, scores)]
        return np.minimum(below, above), np.maximum(below, above)

    def to_json(self) -> dict[str, list[float]]:
        """Return the band as plain JSON."""
        return {"scores": self.scores.tolist(), "low": self.low.tolist(), "high": self.high.tolist()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the band that `to_json` wrote."""
        scores = as_floats("scores", data["scores"])
        return cls(scores, *(as_probabilities(data[name], len(scores)) for name in ("low", "high")))


@dataclass(frozen=True)
class LabelSums:
    """Cumulative sums (n + 1,) of the weights w and of w^2 over the rows in order, for each label: two of each.

    w is scaled to mean 1 in each label. `scale` is what one unit of w weighs in the sample, for each label.
    """

    plain: tuple[Floats, Floats]
    squared: tuple[Floats, Floats]
    scale: tuple[float, float]

    @classmethod
    def of(cls, labels: Labels, weights: Weights) -> Self:
        """Sum the weights (n,) of the rows with labels (n,)."""
        means = [float(weights[labels == label].mean()) for label in (0, 1)]
        own = [np.where(labels == label, weights / mean, 0.0) for label, mean in enumerate(means)]
        # rounded, so that equal weights are exactly 1 and their sums are counts
        rounded = [w.round(9) for w in own]
        sums = [(np.r_[0.0, np.cumsum(w)], np.r_[0.0, np.cumsum(w**2)]) for w in rounded]
        return cls((sums[0][0], sums[1][0]), (sums[0][1], sums[1][1]), (means[0], means[1]))

    def lower_limits(self, label: int, start: Ints, stop: Ints, level: float) -> Floats:
        """Return the lower limits (m,) of a label's share of the weight, from the rows start_i to stop_i of m windows.

        level  the probability that a limit exceeds the share
        """
        counts, sizes = [], []
        for one in (label, 1 - label):
            plain, squared = (s[one][stop] - s[one][start] for s in (self.plain, self.squared))
            some = (plain > 1e-9) & (squared > 0)  # a difference of sums can lose the square of a tiny weight
            counts.append(np.where(some, plain**2 / np.where(some, squared, 1.0), 0.0))
            sizes.append(np.where(some, squared / np.where(some, plain, 1.0), 1.0) * self.scale[one])
        limits = lower_limits(counts[0], counts[0] + counts[1], level)
        own, other = limits * sizes[0], (1 - limits) * sizes[1]
        return own / (own + other)


def _points(scores: Scores, labels: Labels, most: int) -> Floats:
    """Return at most `most` ascending scores: quantiles of the positives' scores and of the negatives'."""
    levels = np.linspace(0, 1, most // 2)
    own = [np.quantile(scores[labels == label], levels, method="nearest") for label in (0, 1)]
    return np.unique(np.concatenate(own))


@dataclass(frozen=True)
class Support:
    """What a calibration sample says about the uncertainty of its calibrator.

    band         confidence limits over all rows
    relations    predicate -> confidence limits over its rows, for a calibrator with a map for each predicate; else
                 empty
    rows         predicate -> its numbers of positives and of negatives, effective ones if rows have counts; empty if
                 the sample has no predicates
    corruptions  predicate -> number of its corruptions, if they count beside few labels: see `fewest`; else empty
    """

    band: Band
    relations: Mapping[int, Band]
    rows: Mapping[int, tuple[int, int]]
    corruptions: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def fit(cls, sample: CalibrationSample, by_predicate: bool) -> Self:
        """Compute the support from a sample.

        by_predicate  whether the calibrator has a map for each predicate. A predicate whose rows have one label only
                      gets no limits.
        """
        rows = rows_of(sample)
        present = [predicate for predicate, sizes in rows.items() if by_predicate and min(sizes) > 0]
        relations = {}
        for predicate in present:
            own = sample.part(sample.predicates == predicate)  # type: ignore[arg-type]
            relations[predicate] = Band.fit(own, most_points=MOST_POINTS_OF_A_RELATION)
        return cls(Band.fit(sample), relations, rows)

    def widened(self, low: Self, high: Self) -> Self:
        """Return the support with the lower limits of `low` and the upper limits of `high`.

        low, high  of the same rows with other weights
        """
        relations = {
            predicate: Band(band.scores, low.relations[predicate].low, high.relations[predicate].high)
            for predicate, band in self.relations.items()
        }
        return replace(self, band=Band(self.band.scores, low.band.low, high.band.high), relations=relations)

    def limits(self, scores: Scores, predicates: Ints | None) -> tuple[Probabilities, Probabilities]:
        """Return the lower and the upper confidence limit (n,) of the share of true triples, at the sample's base rate.

        scores, predicates  (n,) of the triples. A calibrator with a map for each predicate uses the limits of the
                            predicate; they are 0 and 1 for a predicate without limits.
        """
        if not self.relations or predicates is None:
            return self.band.limits(scores)
        low, high = np.zeros(len(scores)), np.ones(len(scores))
        for predicate in np.unique(predicates).tolist():
            own = predicates == predicate
            if predicate in self.relations:
                low[own], high[own] = self.relations[predicate].limits(scores[own])
        return low, high

    def fewest(self, predicates: Ints) -> Ints:
        """Return for each triple (n,) the calibration rows of its predicate: the smaller of positives and negatives.

        predicates  (n,) of the triples

        The negatives are labelled ones or `corruptions`, whichever are more.
        """
        size = 1 + max([0, *self.rows, int(predicates.max(initial=0))])
        counts = np.zeros(size, dtype=np.int64)
        for predicate, (positives, negatives) in self.rows.items():
            counts[predicate] = min(positives, max(negatives, self.corruptions.get(predicate, 0)))
        return counts[predicates]

    def to_json(self) -> dict[str, Any]:
        """Return the support as plain JSON."""
        return {
            "band": self.band.to_json(),
            "relations": {str(predicate): band.to_json() for predicate, band in self.relations.items()},
            "rows": {str(predicate): list(both) for predicate, both in self.rows.items()},
            "corruptions": {str(predicate): number for predicate, number in self.corruptions.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the support that `to_json` wrote."""
        relations = {int(predicate): Band.from_json(band) for predicate, band in data["relations"].items()}
        rows = {int(predicate): (int(both[0]), int(both[1])) for predicate, both in data["rows"].items()}
        corruptions = {int(predicate): int(number) for predicate, number in data["corruptions"].items()}
        return cls(Band.from_json(data["band"]), relations, rows, corruptions)


def rows_of(sample: CalibrationSample) -> dict[int, tuple[int, int]]:
    """Return the `rows` of `Support` of a sample."""
    rows, counts = {}, sample.counts
    for predicate in () if sample.predicates is None else np.unique(sample.predicates).tolist():
        own = sample.predicates == predicate
        negatives, positives = label_sizes(sample.labels[own], None if counts is None else counts[own])
        # a predicate with a row has at least one effective row
        rows[predicate] = (round(positives), max(round(negatives), int(negatives > 0)))
    return rows
