"""What the candidates of a file contain: the fit of their mixture, overall and by relation, in sentences."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from pydantic import TypeAdapter
from scipy.special import chdtri, expit, logit

from kgcore.arrays import Floats
from kgcore.base_rate import ESTIMATED, BaseRate
from kgcore.config import CalibrateConfig
from kgcore.errors import InputError, MismatchError
from kgcore.mixture.em import solve
from kgcore.mixture.fit import FOREIGN, MixtureFit, MixtureOptions, fit_mixture
from kgcore.mixture.interval import Profile, Rate, base_rate_interval, interval_level
from kgcore.mixture.remainder import REMAINDER
from kgcore.mixture.samples import BinCounts, MixtureData, bin_edges, count, no_labels, number_of_bins
from kgcore.registries import STORED

FEWEST = 20  # a relation with fewer positives or candidates, or without corruptions, gets no estimate of its own
OTHERS = -1  # stands for all relations without an estimate of their own
PRIOR_CANDIDATES = 20.0  # the prior of a relation's shares counts as this many mistakes
SMALLEST_SHOWN = 0.005  # a strategy with a smaller share of the mistakes is not named
LEAST_RATE = 1e-6  # an estimated base rate, and each end of its interval, is at least this far from 0 and from 1
GRID = np.linspace(-14, 14, 281)  # log-odds of base rates: down to 1e-6
_MEANS, _SPREADS = np.linspace(-12, 12, 97), np.geomspace(0.05, 4, 24)


@dataclass(frozen=True)
class RelationRate:
    """The base rate of one relation's candidates.

    predicate   its position in the graph's vocabulary, or OTHERS
    own         from the scores of this relation alone, with an interval that holds for this relation
    shrunk      `own`, moved towards the other relations: further if its interval is wider, but never out of the
                interval
    weights     strategy -> its share of the mistakes
    positives, candidates  numbers of scores
    """

    predicate: int
    own: Rate
    shrunk: float
    weights: dict[str, float]
    positives: int
    candidates: int


def fit_relations(
    data: MixtureData,
    weights: dict[str, float],
    rng: np.random.Generator,
    replicates: int = 200,
) -> list[RelationRate]:
    """Estimate the base rate of each relation that has at least FEWEST positives and candidates.

    weights     strategy -> its share of the mistakes of all relations
    replicates  bootstrap replicates for the level of each interval

    Every relation has its own densities, its own base rate and its own shares. `own` has no prior, so that its interval
    covers for each relation. The shares in the result have a Dirichlet prior, centred on `weights`, that counts as
    PRIOR_CANDIDATES mistakes. `shrunk` is a posterior mean. Its prior is a normal distribution of the log-odds over
    relations. The mean and the standard deviation of the prior maximise the marginal likelihood (empirical Bayes: Efron
    & Morris, JASA 70, 1975).

    Raises InputError if a sample has no predicates.
    """
    if data.candidates.predicates is None:
        raise InputError("the candidates have no predicates: base rates by relation need them")
    fits: list[tuple[int, MixtureData, BinCounts, Rate, Profile]] = []
    for predicate in np.unique(data.candidates.predicates).tolist():
        of_relation = data.of_relations([predicate])
        if of_relation is None or min(len(of_relation.positives), len(of_relation.candidates)) < FEWEST:
            continue
        counts = count(of_relation, bin_edges(of_relation, number_of_bins(of_relation)))
        best = solve(counts)
        level = interval_level(counts, best, replicates, rng)
        rate, profile = base_rate_interval(counts, best, level)
        fits.append((predicate, of_relation, counts, rate, profile))
    values = shrink([profile for *_, profile in fits])
    rates = []
    for (predicate, of_relation, counts, rate, _), value in zip(fits, values, strict=True):
        shrunk = float(np.clip(value, rate.low, rate.high))
        sizes = (len(of_relation.positives), len(of_relation.candidates))
        rates.append(RelationRate(predicate, rate, shrunk, _shares(data, counts, shrunk, weights), *sizes))
    return rates


def fit_others(
    data: MixtureData,
    relations: Sequence[RelationRate],
    weights: dict[str, float],
    rng: np.random.Generator,
    replicates: int = 200,
) -> RelationRate | None:
    """Estimate one base rate for the candidates of all relations that are not in `relations`, together.

    Without it, these candidates would get the base rate of all, although those with an estimate of their own may be the
    cause of that rate. The densities are those of these relations, or those of all relations if these have fewer than
    FEWEST positives. None: there are fewer than FEWEST such candidates. The other arguments are those of
    `fit_relations`. In the result, `predicate` is OTHERS, and `shrunk` is the estimate itself.
    """
    assert data.candidates.predicates is not None
    named = [relation.predicate for relation in relations]
    rest = data.candidates.part(~np.isin(data.candidates.predicates, named))
    if len(rest) < FEWEST:
        return None
    assert rest.predicates is not None
    of_rest = data.of_relations(np.unique(rest.predicates).tolist())
    if of_rest is None or len(of_rest.positives) < FEWEST:
        of_rest = replace(data, candidates=rest, labelled=no_labels())
    counts = count(of_rest, bin_edges(of_rest, number_of_bins(of_rest)))
    best = solve(counts)
    rate, _ = base_rate_interval(counts, best, interval_level(counts, best, replicates, rng))
    shares = _shares(data, counts, rate.value, weights)
    return RelationRate(OTHERS, rate, rate.value, shares, len(of_rest.positives), len(of_rest.candidates))


def _shares(data: MixtureData, counts: BinCounts, rate: float, weights: dict[str, float]) -> dict[str, float]:
    """Return the shares of the strategies at a base rate, with a prior that is centred on `weights`."""
    prior = np.r_[0.0, PRIOR_CANDIDATES * np.array([weights[name] for name in data.negatives])]
    mistakes = solve(counts, np.array([min(rate, 1 - 1e-6)]), prior).weights[0, 1:]
    return dict(zip(data.negatives, (mistakes / mistakes.sum()).tolist(), strict=True))


def shrink(profiles: Sequence[Profile]) -> list[float]:
    """Return the posterior means of the base rates, from the profile of each relation.

    The log-likelihood of a relation at base rate a is taken as -chi2 / 2, where chi2 with one degree of freedom has the
    p-value of a: this is its profile log-likelihood, corrected where it is flat. One relation alone is not moved.
    """
    if not profiles:
        return []
    likelihood = np.stack([on_grid(profile) for profile in profiles])  # (relations, grid)
    if len(profiles) == 1:
        return [float(profiles[0].alphas[profiles[0].p_values.argmax()])]
    apart = (GRID[None, None] - _MEANS[:, None, None]) / _SPREADS[None, :, None]
    density = np.exp(-0.5 * apart**2)
    density /= density.sum(axis=-1, keepdims=True)  # (means, spreads, grid)
    marginal = np.log(np.maximum(density @ np.exp(likelihood).T, 1e-300)).sum(axis=-1)
    mean, spread = np.unravel_index(int(marginal.argmax()), marginal.shape)
    posterior = np.exp(likelihood) * density[mean, spread]
    values: list[float] = (posterior @ expit(GRID) / posterior.sum(axis=-1)).tolist()
    return values


def on_grid(profile: Profile) -> Floats:
    """Return the corrected log-likelihood at the log-odds GRID, interpolated, at most 0."""
    inner = (profile.alphas > 0) & (profile.alphas < 1)
    value = -0.5 * chdtri(1, np.clip(profile.p_values[inner], 1e-250, 1.0))
    interpolated = np.interp(GRID, logit(profile.alphas[inner]), value)
    below_top: Floats = interpolated - interpolated.max()
    return below_top


@STORED.register("candidates")
@dataclass(frozen=True)
class Matched:
    """What the candidates of a file contain.

    source     name of the file, or of the held-out split
    fit        the mixture of all candidates
    relations  base rate and shares of each relation with enough candidates
    notes      which rows of the file are left out, and why, in sentences
    others     base rate and shares of all other relations together; None: they have too few candidates
    """

    source: str
    fit: MixtureFit
    relations: tuple[RelationRate, ...] = ()
    notes: tuple[str, ...] = ()
    others: RelationRate | None = None

    def settle(self, config: CalibrateConfig) -> CalibrateConfig:
        """Return the settings with the base rate of the candidates: the stated one, otherwise the estimate.

        Raises MismatchError if the settings have another base rate, and InputError if no base rate is stated and the
        candidates do not determine it.
        """
        fit, given = self.fit, config.base_rate
        if fit.stated:
            if given not in (None, fit.base_rate):
                raise MismatchError(
                    f"base_rate is {given:g}, but the candidates were matched at the base rate {fit.base_rate:g}: "
                    f"run match again with match_base_rate {given:g}"
                )
            return config.replace(base_rate=fit.base_rate)
        value, low, high = (inside(end) for end in (fit.base_rate, fit.estimated.low, fit.estimated.high))
        if given is not None and (given, config.base_rate_from) != (value, ESTIMATED):
            raise MismatchError(
                f"base_rate is {given:g}, but the candidates were matched without a stated base rate: run match again "
                f"with match_base_rate {given:g}"
            )
        if reason := self.undetermined:
            raise InputError(reason)
        return config.at(BaseRate(value, min(low, value), max(high, value), ESTIMATED))

    @property
    def undetermined(self) -> str:
        """Why the base rate of the candidates is not known, in one sentence; '' if it is stated or determined."""
        fit = self.fit
        if fit.stated:
            return ""
        if not fit.determined:
            return fit.findings()[0]
        if not LEAST_RATE < fit.base_rate < 1 - LEAST_RATE:
            return f"the estimated base rate of these candidates is {fit.base_rate:g}: state one above 0 and below 1"
        if fit.fit.p_value > FOREIGN:
            return ""
        return (
            f"{fit.findings()[-1]}, so their scores do not determine the base rate: state it, or {fit.to_label}, for "
            "`kgcal base-rate`"
        )

    @property
    def stated(self) -> bool:
        """Return whether the user stated the base rate; if not, it is the estimate of the fit."""
        return self.fit.stated

    @property
    def summary(self) -> str:
        """Return how many candidates there are, what their mistakes resemble, and the test of fit, in a clause."""
        return (
            f"{self.fit.candidates + self.fit.labels:,} candidates of {self.source}. Their mistakes resemble "
            f"corruptions: {self.mistakes}. Test of fit: p = {self.fit.fit.p_value:.2g}"
        )

    @property
    def mistakes(self) -> str:
        """What the mistakes resemble, such as `61 % near_miss, 24 % typed, 15 % no strategy`."""
        shares = sorted(self.fit.weights.items(), key=lambda share: -share[1])
        named = [(share, "no strategy" if name == REMAINDER else name) for name, share in shares]
        return ", ".join(f"{100 * share:.0f} % {name}" for share, name in named if share >= SMALLEST_SHOWN)

    def sentences(self) -> list[str]:
        """Return what the probabilities of calibrators fitted to these candidates are about, in sentences."""
        fit, rate = self.fit, self.fit.estimated
        limits = f"{rate.low:.3g} to {rate.high:.3g}"
        own = f"{fit.base_rate:.3g}, stated; their scores suggest {limits}"
        if not fit.stated:
            own = f"{fit.base_rate:.3g}, estimated, 95 % interval {limits}"
        labels = f", {fit.labels:,} of them labelled" if fit.labels else ""
        said = [
            f"The rows `candidates` are probabilities for triples like the {fit.candidates + fit.labels:,} candidates "
            f"in {self.source}{labels}. Their base rate is {own}. Their mistakes resemble corruptions: "
            f"{self.mistakes}. Test of fit: p = {fit.fit.p_value:.2g}."
        ]
        return said + [f"{text[0].upper()}{text[1:]}." for text in (*fit.findings(), *self.notes)]

    def metrics(self) -> dict[str, float]:
        """Return base rate, its interval, shares of the mistakes and p of the test of fit, under their names."""
        fit, rate = self.fit, self.fit.estimated
        found = {"base_rate": fit.base_rate, "estimated": rate.value, "low": rate.low, "high": rate.high}
        found |= {"fit_p": fit.fit.p_value, "candidates": float(fit.candidates), "labels": float(fit.labels)}
        return found | {f"share.{name}": share for name, share in fit.weights.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the fit as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the fit that `to_json` wrote."""
        return TypeAdapter(cls).validate_python(data)


def match(
    data: MixtureData, source: str, options: MixtureOptions, rng: np.random.Generator, notes: Sequence[str] = ()
) -> Matched:
    """Fit the mixture of the candidates, overall and for each relation with enough of them.

    source, notes  see `Matched`
    """
    fit = fit_mixture(data, options, rng)
    relations = fit_relations(data, fit.strategies, rng, replicates=options.replicates)
    others = fit_others(data, relations, fit.strategies, rng, replicates=options.replicates) if relations else None
    return Matched(source, fit, tuple(relations), tuple(notes), others)


def inside(rate: float) -> float:
    """Return a base rate that is at least LEAST_RATE from 0 and from 1."""
    return float(np.clip(rate, LEAST_RATE, 1 - LEAST_RATE))
