"""The base rate of the candidates of each relation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import chi2

from kgcore.arrays import Floats
from kgcore.errors import InputError
from kgcore.mixture.bins import Counts, bin_edges, count, number_of_bins
from kgcore.mixture.em import solve
from kgcore.mixture.interval import Profile, base_rate_interval
from kgcore.mixture.labels import CONFIDENCE, Rate
from kgcore.mixture.level import interval_level
from kgcore.mixture.samples import MixtureData

FEWEST = 20  # a relation with fewer positives or candidates, or without corruptions, gets no estimate of its own
PRIOR_CANDIDATES = 20.0  # the prior of a relation's shares counts as this many mistakes
_GRID = np.linspace(-9, 9, 181)  # log-odds of base rates
_MEANS, _SPREADS = np.linspace(-7, 7, 57), np.geomspace(0.05, 4, 24)


@dataclass(frozen=True)
class RelationRate:
    """The base rate of one relation's candidates.

    predicate   its position in the graph's vocabulary
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
    confidence: float = CONFIDENCE,
    replicates: int = 200,
    fewest: int = FEWEST,
) -> list[RelationRate]:
    """Estimate the base rate of each relation that has at least `fewest` positives and candidates.

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
    prior = np.r_[0.0, PRIOR_CANDIDATES * np.array([weights[name] for name in data.negatives])]
    found: list[tuple[int, MixtureData, Counts, Rate, Profile]] = []
    for predicate in np.unique(data.candidates.predicates).tolist():
        part = data.of_relations([predicate])
        if part is None or min(len(part.positives), len(part.candidates)) < fewest:
            continue
        counts = count(part, bin_edges(part, number_of_bins(part)))
        best = solve(counts)
        level = interval_level(counts, best, confidence, replicates, rng)
        rate, profile = base_rate_interval(counts, best, level)
        found.append((predicate, part, counts, rate, profile))
    values = shrink([profile for *_, profile in found])
    made = []
    for (predicate, part, counts, rate, _), value in zip(found, values, strict=True):
        shrunk = float(np.clip(value, rate.low, rate.high))
        mistakes = solve(counts, np.array([min(shrunk, 1 - 1e-6)]), prior).weights[0, 1:]
        shares = dict(zip(data.negatives, (mistakes / mistakes.sum()).tolist(), strict=True))
        sizes = (len(part.positives), len(part.candidates))
        made.append(RelationRate(predicate, rate, shrunk, shares, *sizes))
    return made


def shrink(profiles: Sequence[Profile]) -> list[float]:
    """Return the posterior means of the base rates, from the profile of each relation.

    The log-likelihood of a relation at base rate a is taken as -chi2 / 2, where chi2 with one degree of freedom has the
    p-value of a: this is its profile log-likelihood, corrected where it is flat. One relation alone is not moved.
    """
    if not profiles:
        return []
    likelihood = np.stack([_on_grid(profile) for profile in profiles])  # (relations, grid)
    if len(profiles) == 1:
        return [float(profiles[0].alphas[profiles[0].p_values.argmax()])]
    apart = (_GRID[None, None] - _MEANS[:, None, None]) / _SPREADS[None, :, None]
    density = np.exp(-0.5 * apart**2)
    density /= density.sum(axis=-1, keepdims=True)  # (means, spreads, grid)
    marginal = np.log(np.maximum(density @ np.exp(likelihood).T, 1e-300)).sum(axis=-1)
    mean, spread = np.unravel_index(int(marginal.argmax()), marginal.shape)
    posterior = np.exp(likelihood) * density[mean, spread]
    values: list[float] = (posterior @ expit(_GRID) / posterior.sum(axis=-1)).tolist()
    return values


def _on_grid(profile: Profile) -> Floats:
    """Return the corrected log-likelihood on the grid of log-odds, interpolated, at most 0."""
    inner = (profile.alphas > 0) & (profile.alphas < 1)
    value = -0.5 * chi2.isf(np.clip(profile.p_values[inner], 1e-250, 1.0), 1)
    interpolated = np.interp(_GRID, logit(profile.alphas[inner]), value)
    below_top: Floats = interpolated - interpolated.max()
    return below_top
