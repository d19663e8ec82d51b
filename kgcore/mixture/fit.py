"""Fit the mixture of candidates."""

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter

from kgcore.arrays import Floats
from kgcore.calibrate.support import TAIL
from kgcore.mixture.em import Solution, resample, solve
from kgcore.mixture.goodness import Fitness, fitness_of, simulated
from kgcore.mixture.interval import Rate, base_rate_interval, interval_level, labels_needed
from kgcore.mixture.remainder import REMAINDER, Remainder, remainder, remainder_share
from kgcore.mixture.samples import BinCounts, MixtureData, bin_edges, count, number_of_bins

MUCH = 0.5  # a share of the remainder from this one on is reported
FOREIGN = 0.01  # a test of fit with a p-value below this one is reported
POSITIVES = "positives"
SMALLEST_SHARE = 1e-4  # a strategy with a smaller share of the mistakes gets the share 0


@dataclass(frozen=True)
class ScoreShape:
    """The distribution of the candidates' scores, and its parts. Each part has the shares of B bins.

    edges       (B - 1,) ascending scores between the bins
    candidates  (B,) observed shares; they sum to 1
    parts       component -> (B,) fitted shares; those of all components sum to 1. If the remainder has a share, it is a
                component
    """

    edges: tuple[float, ...]
    candidates: tuple[float, ...]
    parts: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class MixtureFit:
    """What the candidates contain: a share of true triples, and mistakes that resemble corruptions of some strategies.

    base_rate      the base rate that probabilities assume, in [0, 1]
    stated         whether the user stated it; if not, it is the estimate
    estimated      the base rate that the candidates and labels suggest, with its interval
    shares         strategy -> its share pi of the mistakes, with a bootstrap interval; the values sum to 1. They are
                   shares of the mistakes without the remainder
    fit            the test of fit
    shape          the candidates' scores and the fitted parts; the positives' part is called "positives"
    candidates     number of unlabelled candidates
    labels         number of labelled candidates
    width          the base rate is determined if its interval is narrow enough for this width: see `Rate.is_narrow`
    labels_needed  number of random candidates to label for such an interval, from labels alone
    remainder      share of the remainder in the mistakes, in [0, 1]: see `remainder_share`. It is 0 without a stated
                   base rate
    """

    base_rate: float
    stated: bool
    estimated: Rate
    shares: dict[str, Rate]
    fit: Fitness
    shape: ScoreShape
    candidates: int
    labels: int
    width: float
    labels_needed: int
    remainder: float = 0.0

    @property
    def determined(self) -> bool:
        """Return whether candidates and labels determine the base rate: see `Rate.is_narrow`."""
        return self.estimated.is_narrow(self.width)

    @property
    def strategies(self) -> dict[str, float]:
        """Return strategy -> its share of the mistakes without the remainder."""
        return {name: share.value for name, share in self.shares.items()}

    @property
    def weights(self) -> dict[str, float]:
        """Return component -> its share of the mistakes: strategies, and the remainder if it has a share. Sum 1."""
        strategies = {name: (1 - self.remainder) * share for name, share in self.strategies.items()}
        return strategies | ({REMAINDER: self.remainder} if self.remainder else {})

    @property
    def to_label(self) -> str:
        """What to label, so that labels alone determine the base rate."""
        further = self.labels_needed - self.candidates
        if further > 0:
            return f"label all {self.candidates:,} of them and {further:,} further ones, drawn at random"
        return f"label {self.labels_needed:,} of them, drawn at random"

    def findings(self) -> list[str]:
        """Return what a user should know about the fit, in sentences. The list is empty if all is well."""
        sentences, rate = [], self.estimated
        limits = f"{rate.low:.3g} to {rate.high:.3g}"
        if not self.determined and not self.stated and self.fit.p_value > FOREIGN:
            sentences.append(
                f"these candidates do not determine the base rate ({limits}): state it, or {self.to_label}"
            )
        if self.stated and not rate.low <= self.base_rate <= rate.high:
            sentences.append(
                f"the stated base rate is {self.base_rate:g}, but these candidates suggest {limits}: check it, or "
                f"{self.to_label}"
            )
        if self.fit.p_value <= FOREIGN:
            stated = " with the stated base rate" if self.stated else ""
            sentences.append(
                f"your candidates contain mistakes that no strategy resembles: no mixture of "
                f"{', '.join(self.shares)}{stated} explains their scores (p = {self.fit.p_value:.2g})"
            )
        if self.remainder >= MUCH:
            sentences.append(
                "the mistakes differ from the corruptions of every strategy, so "
                f"{self.remainder:.0%} of them are taken from the candidates themselves. This depends on the stated "
                "base rate: check that it is right"
            )
        return sentences

    def to_json(self) -> dict[str, Any]:
        """Return the fit as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the fit that `to_json` wrote."""
        return TypeAdapter(cls).validate_python(data)


@dataclass(frozen=True)
class MixtureOptions:
    """How a mixture is fitted.

    base_rate   the stated base rate of the candidates, in (0, 1); None: it is estimated
    width       an interval of the base rate that is wider than this does not determine it, in (0, 1): see
                `Rate.is_narrow`
    replicates  bootstrap replicates of the shares, and of the test of fit; at least 20
    """

    base_rate: float | None = None
    width: float = 0.1
    replicates: int = 200


def fit_mixture(data: MixtureData, options: MixtureOptions, rng: np.random.Generator) -> MixtureFit:
    """Fit g(f) = alpha f+(f) + (1 - alpha) sum_k pi_k f-_k(f) to the scores of candidates.

    f+ is the density of the positives' scores, and f-_k that of the corruptions of strategy k. The result assumes that
    true candidates have scores like the positives, and that mistakes have scores like a mixture of the corruptions. The
    test of fit can refute the assumption, but not confirm it.

    If the base rate is stated, the mistakes need not look like corruptions. The worse the strategies fit, the more of
    the mistakes is taken from the candidates themselves: see `remainder` and `remainder_share`.
    """
    edges = bin_edges(data, number_of_bins(data))
    counts = count(data, edges)
    free = solve(counts)
    level = interval_level(counts, free, options.replicates, rng)
    estimated, _ = base_rate_interval(counts, free, level)
    stated = options.base_rate
    best = free if stated is None else solve(counts, np.array([stated]), start=free)
    weights = _cleaned(best.weights[0])
    limits = _share_limits(counts, best, stated, options, rng)
    values = (weights[1:] / max(weights[1:].sum(), 1e-300)).tolist()
    shares = {
        name: Rate(value, min(low, value), max(high, value))
        for name, value, (low, high) in zip(data.negatives, values, limits, strict=True)
    }
    simulation = simulated(counts, best, stated, options.replicates, rng, data.shared)
    rest = 0.0 if stated is None else remainder_share(simulation, stated)
    shape = _shape(edges, counts, best, tuple(data.negatives))
    if stated is not None and rest:
        shape = _with_remainder(shape, remainder(data, stated), stated, rest)
    return MixtureFit(
        base_rate=float(weights[0]) if stated is None else stated,
        stated=stated is not None,
        estimated=estimated,
        shares=shares,
        fit=fitness_of(simulation),
        shape=shape,
        candidates=len(data.candidates),
        labels=len(data.labelled),
        width=options.width,
        labels_needed=labels_needed(estimated, options.width),
        remainder=rest,
    )


def _share_limits(
    counts: BinCounts, best: Solution, stated: float | None, options: MixtureOptions, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Return percentile bootstrap limits of each strategy's share of the mistakes."""
    drawn = resample(counts, options.replicates, rng)
    alphas = None if stated is None else np.full(options.replicates, stated)
    negatives = solve(drawn, alphas, start=best.repeat(options.replicates)).weights[:, 1:]
    shares = negatives / np.maximum(negatives.sum(axis=-1, keepdims=True), 1e-300)
    low, high = np.quantile(shares, [TAIL, 1 - TAIL], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _cleaned(weights: Floats) -> Floats:
    """Return weights (J,) in which strategies with a negligible share of the mistakes have the weight 0."""
    negatives = weights[1:]
    kept = np.where(negatives >= SMALLEST_SHARE * negatives.sum(), negatives, 0.0)
    scale = negatives.sum() / kept.sum() if kept.sum() > 0 else 1.0
    cleaned: Floats = np.r_[weights[0], kept * scale]
    return cleaned


def _shape(edges: Floats, counts: BinCounts, best: Solution, names: tuple[str, ...]) -> ScoreShape:
    observed = counts.candidates[0] / counts.candidates[0].sum()
    parts = best.weights[0][:, None] * best.densities[0]
    named = {name: tuple(shares.tolist()) for name, shares in zip((POSITIVES, *names), parts, strict=True)}
    return ScoreShape(tuple(edges.tolist()), tuple(observed.tolist()), named)


def _with_remainder(shape: ScoreShape, rest: Remainder, base_rate: float, share: float) -> ScoreShape:
    """Return the shape in which the remainder has a share of the mistakes, and the strategies have the others."""
    bins = np.searchsorted(np.array(shape.edges), rest.sample.scores, side="right")
    weights = np.bincount(bins, rest.weights, len(shape.candidates))
    parts = {
        name: own if name == POSITIVES else tuple((1 - share) * part for part in own)
        for name, own in shape.parts.items()
    }
    scale = (1 - base_rate) * share / weights.sum()
    return ScoreShape(shape.edges, shape.candidates, parts | {REMAINDER: tuple((scale * weights).tolist())})
