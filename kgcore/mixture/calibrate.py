"""Calibrate to candidates: the sample of a mixture, calibrators of it, and intervals that count its uncertainty."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import expit, logit, ndtri

from kgcore.arrays import Floats, Ints
from kgcore.calibrate.base import Calibrator
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import CANDIDATES, bind, terms_of
from kgcore.calibrate.isotonic import SmoothedIsotonic
from kgcore.calibrate.logistic import move_to
from kgcore.calibrate.sample import CalibrationSample, evenly_weighted, shift
from kgcore.calibrate.support import MOST_POINTS, MOST_POINTS_OF_A_RELATION, TAIL, Band, Support, rows_of
from kgcore.calibrate.validation import FIGURE, UNLIKE
from kgcore.config import CalibrateConfig
from kgcore.mixture.em import solve
from kgcore.mixture.fit import MixtureFit
from kgcore.mixture.goodness import unlabelled_brier, unlike
from kgcore.mixture.matched import Matched, RelationRate, inside
from kgcore.mixture.remainder import REMAINDER, remainder
from kgcore.mixture.samples import BinCounts, MixtureData, ScoreSample, count
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import ScoreTable


@dataclass(frozen=True)
class MatchedCandidates:
    """The candidates to calibrate to.

    data        their scores, and those of positives and corruptions
    matched     the fit of their mixture. Its base rate is that of the calibration
    replicates  bootstrap replicates for the limits of the probabilities, at least 20
    seed        seed of the bootstrap
    """

    data: MixtureData
    matched: Matched
    replicates: int
    seed: int


def fit_score_calibrators(
    table: ScoreTable, config: CalibrateConfig, candidates: MatchedCandidates
) -> list[Calibrated]:
    """Fit every calibrator of the configuration that sees the score alone to the candidates."""
    terms, rng = terms_of(table, CANDIDATES, config.rate, candidates.matched), np.random.default_rng(candidates.seed)
    maps = fit_matched(candidates.data, candidates.matched, config.score_calibrators, candidates.replicates, rng)
    return [bind(terms, name, fitted, table.model, limits) for name, (fitted, limits) in maps.items()]


def fit_matched(
    data: MixtureData, matched: Matched, names: Sequence[str], replicates: int, rng: np.random.Generator
) -> dict[str, tuple[Calibrator, Support]]:
    """Fit calibrators to the candidates, with limits of their probabilities that count the mixture's uncertainty.

    names       registered names of the calibrators
    replicates  bootstrap replicates, at least 20

    A calibrator with a map for each predicate is fitted with the base rate and the mistakes of each relation. All
    others share the limits of `fit_to_candidates`.
    """
    _, band = fit_to_candidates(data, matched.fit, SmoothedIsotonic, replicates, rng)
    fitted = {}
    for name in names:
        calibrator = CALIBRATORS.get(name)()
        sample = candidate_sample(data, matched, calibrator.by_predicate)
        relations = matched.relations if calibrator.by_predicate else ()
        bands = {relation.predicate: _relation_band(relation, sample, rng) for relation in relations}
        fitted[name] = (calibrator.fit_sample(sample), Support(band, bands, rows_of(sample)))
    return fitted


def _relation_band(relation: RelationRate, sample: CalibrationSample, rng: np.random.Generator) -> Band:
    """Return confidence limits of one relation. They hold for every base rate in the interval of the relation.

    The uncertainty of the relation's shares is not counted.
    """
    own = sample.part(sample.predicates == relation.predicate)  # type: ignore[arg-type]
    rows = evenly_weighted(own, rng)
    band = Band.fit(rows, most_points=MOST_POINTS_OF_A_RELATION)
    ends = np.array([inside(end) for end in (relation.own.low, relation.own.high)])
    moved = shift(ends, inside(relation.shrunk), own.base_rate)  # if the base rate of all relations was stated
    low, high = min(inside(moved[0]), own.base_rate), max(inside(moved[1]), own.base_rate)
    return Band(band.scores, shift(band.low, rows.base_rate, low), shift(band.high, rows.base_rate, high))


def unlabelled_figures(fitted: Sequence[tuple[Calibrated, MixtureData]]) -> dict[str, float]:
    """Return the Brier score of each calibrator for candidates, estimated without labels: see `unlabelled_brier`.

    fitted  calibrators, and the samples of the mixtures that they were fitted to

    The estimate is too low if true candidates are unlike the positives. So what they cost at least is added, and their
    share is a figure of its own: see `unlike`. Evidence that only tells positives from candidates is not chosen then.
    """
    figures = {}
    for bound, data in fitted:
        q = [bound.predict(rows.scores, bound.model, rows.predicates) for rows in (data.positives, data.candidates)]
        figures[UNLIKE + bound.shown_name], cost = unlike(q[0], q[1], bound.base_rate)
        figures[FIGURE + bound.shown_name] = unlabelled_brier(q[0], q[1], bound.base_rate) + cost
    return figures


def candidate_sample(data: MixtureData, matched: Matched, by_predicate: bool = False) -> CalibrationSample:
    """Return the sample that calibrators are fitted on.

    by_predicate  whether each relation has its own base rate and its own mistakes, where there is enough
    """
    if by_predicate and matched.relations:
        return relation_sample(data, matched.fit, matched.relations, matched.others)
    return mixture_sample(data, inside(matched.fit.base_rate), matched.fit.weights)


def mixture_sample(data: MixtureData, base_rate: float, weights: Mapping[str, float]) -> CalibrationSample:
    """Build the calibration sample of a mixture, on which every calibrator can be fitted.

    base_rate  alpha: the positives have this share of the weight, in equal parts
    weights    strategy -> pi_k: its corruptions have the share (1 - alpha) pi_k, in equal parts; 0 leaves them out.
               With a share of REMAINDER, the candidates themselves have this share, each by its probability of being a
               mistake: see `kgcore.mixture.remainder`

    Raises FitError if the base rate is 0 or 1.
    """
    return _sample(data, base_rate, [weights[name] for name in data.negatives], weights.get(REMAINDER, 0.0), None)


def relation_sample(
    data: MixtureData, fit: MixtureFit, relations: Sequence[RelationRate], rest: RelationRate | None = None
) -> CalibrationSample:
    """Build the calibration sample of a mixture in which relations have their own base rates and shares.

    The weight of each relation is its share of the candidates. So a relation's base rate does not depend on how many of
    its corruptions were drawn, or dropped because they are known facts. Relations that are not in `relations` have the
    base rate and the shares of `rest`, the estimate for all of them; None: those of all candidates. Then the log-odds
    of all base rates are moved by the same number, so that the sample has the base rate of the fit.

    If the remainder has the share rho in the fit, it has this share in each relation. The base rates by relation were
    estimated with the strategies alone. So the difference of their log-odds from that of the stated base rate is first
    multiplied by 1 - rho.
    """
    by_relation = {one.predicate: one for one in relations}
    known = [one.predicates for one in (*data.components, data.candidates) if one.predicates is not None]
    every = np.unique(np.concatenate(known))
    others = data.of_relations([p for p in every.tolist() if p not in by_relation])
    strata: list[tuple[MixtureData | None, float, Mapping[str, float]]] = [
        (data.of_relations([p]), _towards(fit, one.shrunk), _with_remainder(fit, one.weights))
        for p, one in by_relation.items()
    ]
    strata.append(
        (others, _towards(fit, rest.shrunk), _with_remainder(fit, rest.weights))
        if rest is not None
        else (others, fit.base_rate, fit.weights)
    )
    parts = [(part, rate, weights) for part, rate, weights in strata if part is not None]
    sizes = np.array([float(len(part.candidates)) for part, _, _ in parts])
    rates = np.clip([rate for _, rate, _ in parts], 1e-6, 1 - 1e-6)
    rates = expit(logit(rates) + move_to(logit(rates), sizes, float(np.clip(fit.base_rate, 1e-6, 1 - 1e-6))))
    samples = [mixture_sample(part, rate, own) for (part, _, own), rate in zip(parts, rates.tolist(), strict=True)]
    return CalibrationSample(
        np.concatenate([sample.scores for sample in samples]),
        np.concatenate([sample.labels for sample in samples]),
        np.concatenate([s.weights * (size / s.weights.sum()) for s, size in zip(samples, sizes, strict=True)]),
        np.concatenate([sample.predicates for sample in samples if sample.predicates is not None]),
    )


def _towards(fit: MixtureFit, rate: float) -> float:
    """Return the base rate of a relation, moved towards that of all candidates by the share of the remainder."""
    if not fit.remainder:
        return rate
    own, every = logit(np.clip([rate, fit.base_rate], 1e-6, 1 - 1e-6))
    return float(expit(own + fit.remainder * (every - own)))


def _with_remainder(fit: MixtureFit, weights: Mapping[str, float]) -> dict[str, float]:
    """Return the shares of a relation's strategies, scaled down, and the share that the remainder has in the fit."""
    return {name: (1 - fit.remainder) * own for name, own in weights.items()} | {REMAINDER: fit.remainder}


def fit_to_candidates(
    data: MixtureData, fit: MixtureFit, make: Callable[[], Calibrator], replicates: int, rng: np.random.Generator
) -> tuple[Calibrator, Band]:
    """Fit a calibrator to the candidates, with bootstrap confidence limits of its probabilities.

    make        returns an unfitted calibrator
    replicates  number of bootstrap replicates, at least 20

    In every replicate all samples are drawn again: positives together with their own corruptions, and candidates. The
    weights are estimated again, and so is the base rate unless it was stated. If it was, the remainder is computed
    again, and the limits count with it alone, even if it has no share in the fit: a few hundred candidates often do not
    show that the strategies are wrong. The limits are percentiles of the shares of positives in windows of scores: see
    `Windows`. They do not depend on the calibrator, but they include its probabilities.
    """
    sample = mixture_sample(data, fit.base_rate, fit.weights)
    fitted = make().fit_sample(sample)
    windows = Windows.of(sample, min(len(data.positives), len(data.candidates)))
    edges = np.array(fit.shape.edges)
    draws = [_draw(data, rng) for _ in range(replicates)]
    problems = BinCounts.stack([count(_drawn(data, draw), edges) for draw in draws])
    solved = solve(problems, np.full(replicates, fit.base_rate) if fit.stated else None).weights
    shares, rest = [], float(fit.stated)
    for draw, weights in zip(draws, solved, strict=True):
        alpha = float(np.clip(weights[0], 1e-6, 1 - 1e-6))
        strategies = ((1 - rest) * weights[1:] / weights[1:].sum()).tolist()
        shares.append(windows.shares(_sample(data, alpha, strategies, rest, draw)))
    low, high = np.array(shares).swapaxes(0, 1)
    return fitted, windows.band(low, high, fitted.calibrate(windows.scores))


def _sample(
    data: MixtureData, base_rate: float, weights: list[float], rest: float, draw: list[Ints] | None
) -> CalibrationSample:
    """Build the sample, in which the remainder has the share `rest`. draw: how often each row was drawn; None: once."""
    scores, labels, row_weights, predicates = [], [], [], []
    shares = [base_rate, *((1 - base_rate) * weight for weight in weights)]
    for position, (sample, share) in enumerate(zip(data.components, shares, strict=True)):
        times = np.ones(len(sample)) if draw is None else draw[position].astype(np.float64)
        rows = times > 0
        if share <= 0 or not rows.any():
            continue
        scores.append(sample.scores[rows])
        labels.append(np.full(int(rows.sum()), float(position == 0)))
        row_weights.append(times[rows] * (share / times.sum()))
        if sample.predicates is not None:
            predicates.append(sample.predicates[rows])
    if rest > 0 and base_rate < 1:
        drawn = None if draw is None else [draw[place].astype(np.float64) for place in (0, -2, -1)]
        left = remainder(data, base_rate, drawn)
        rows = left.weights > 0
        scores.append(left.sample.scores[rows])
        labels.append(np.zeros(int(rows.sum())))
        row_weights.append(left.weights[rows] * ((1 - base_rate) * rest / left.weights.sum()))
        if left.sample.predicates is not None:
            predicates.append(left.sample.predicates[rows])
    known = np.concatenate(predicates) if len(predicates) == len(scores) else None
    return CalibrationSample(np.concatenate(scores), np.concatenate(labels), np.concatenate(row_weights), known)


def _draw(data: MixtureData, rng: np.random.Generator) -> list[Ints]:
    """Return how often each row of each component, of the candidates and of the labelled candidates is drawn.

    Rows of one group are drawn together, also those of different components: a positive with its corruptions.
    """
    groups = [sample.groups for sample in data.components if sample.groups is not None]
    ids = np.unique(np.concatenate(groups)) if groups else np.empty(0, dtype=np.int64)
    often = rng.multinomial(len(ids), np.full(len(ids), 1 / len(ids))) if len(ids) else ids
    times = [
        _rows(len(sample), rng) if sample.groups is None else often[np.searchsorted(ids, sample.groups)]
        for sample in data.components
    ]
    return [*times, _times_of(data.candidates, rng), _times_of(data.labelled.sample, rng)]


def _times_of(sample: ScoreSample, rng: np.random.Generator) -> Ints:
    if sample.groups is None:
        return _rows(len(sample), rng)
    ids, place = np.unique(sample.groups, return_inverse=True)
    return _rows(len(ids), rng)[place]


def _rows(n: int, rng: np.random.Generator) -> Ints:
    return rng.multinomial(n, np.full(n, 1 / n)) if n else np.empty(0, dtype=np.int64)


def _drawn(data: MixtureData, draw: list[Ints]) -> MixtureData:
    """Return the drawn rows as the samples of a mixture."""
    *components, candidates, labelled = draw
    parts = [
        sample.part(np.repeat(np.arange(len(sample)), times))
        for sample, times in zip(data.components, components, strict=True)
    ]
    return MixtureData(
        parts[0],
        dict(zip(data.negatives, parts[1:], strict=True)),
        data.candidates.part(np.repeat(np.arange(len(data.candidates)), candidates)),
        data.labelled.part(np.repeat(np.arange(len(data.labelled)), labelled)),
    )


ADDED = float(ndtri(TAIL)) ** 2 / 2  # number of rows that are added for a limit, z^2 / 2


@dataclass(frozen=True)
class Windows:
    """A window of scores around each of m scores.

    The share of positives in a narrow window around a score f estimates the probability q(f), whatever the calibrator
    is. A window has at most the share n^(-1/3) of the weight, of the positives' weight, and of the negatives' weight.
    Without the last two, a window would be too wide where a base rate is low: all positives could be in one. Half of a
    window is on each side of f. n is the number of positives or of candidates, whichever is smaller. Near the lowest
    and the highest score a window is smaller, because both halves have the same weight.

    scores  (m,) ascending
    start   (m,) lowest score of the window
    stop    (m,) highest score of the window
    """

    scores: Floats
    start: Floats
    stop: Floats

    @classmethod
    def of(cls, sample: CalibrationSample, rows: float) -> Self:
        """Return the windows of up to MOST_POINTS scores of a sample. `rows` is n."""
        points = np.unique(np.quantile(sample.scores, np.linspace(0, 1, MOST_POINTS), method="nearest"))
        order = np.argsort(sample.scores, kind="stable")
        scores, weights, labels = sample.scores[order], sample.weights[order], sample.labels[order]
        last = np.searchsorted(scores, points, side="right") - 1
        first = np.searchsorted(scores, points, side="left")
        mass = np.cumsum(weights)
        before = np.r_[0.0, mass][first]
        half = np.minimum(before, mass[-1] - mass[last])
        for own in (weights, weights * labels, weights * (1 - labels)):  # all rows, positives, negatives
            part = np.cumsum(own)
            most = part[-1] * rows ** (-1 / 3) / 2
            stop = np.searchsorted(part, part[last] + most, side="left").clip(max=len(scores) - 1)
            start = np.searchsorted(part, np.r_[0.0, part][first] - most, side="right")
            half = np.minimum(half, np.minimum(mass[stop] - mass[last], before - np.r_[0.0, mass][start]))
        start = np.searchsorted(mass, before - half, side="left")
        stop = np.searchsorted(mass, mass[last] + half, side="left").clip(max=len(scores) - 1)
        return cls(points, scores[start], scores[stop])

    def shares(self, sample: CalibrationSample) -> tuple[Floats, Floats]:
        """Return a low and a high share of positives in each window, (m,) and (m,).

        The low share is computed with ADDED further negatives, the high share with ADDED further positives. Each of
        them has the greatest weight of a row with this label. Without them, the limits of rare labels would be too
        narrow (Agresti & Coull, American Statistician 52, 1998).
        """
        order = np.argsort(sample.scores, kind="stable")
        scores, weights, labels = sample.scores[order], sample.weights[order], sample.labels[order]
        every, true = np.r_[0.0, np.cumsum(weights)], np.r_[0.0, np.cumsum(weights * labels)]

        first = np.searchsorted(scores, self.start, side="left")
        after = np.searchsorted(scores, self.stop, side="right")
        inside, found = every[after] - every[first], true[after] - true[first]
        negative, positive = (ADDED * float(weights[labels == label].max()) for label in (0, 1))
        return found / (inside + negative), (found + positive) / (inside + positive)

    def band(self, low_shares: Floats, high_shares: Floats, own: Floats) -> Band:
        """Return the limits from the shares (replicates, m) of all replicates. They include the probabilities `own`."""
        low, high = np.quantile(low_shares, TAIL, axis=0), np.quantile(high_shares, 1 - TAIL, axis=0)
        # a share can be above 1 by rounding
        return Band(self.scores, np.minimum(low, own).clip(0, 1), np.maximum(high, own).clip(0, 1))
