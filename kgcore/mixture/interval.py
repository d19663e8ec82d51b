"""The confidence interval of the base rate of candidates."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from kgcore.arrays import Floats
from kgcore.mixture.bins import Counts
from kgcore.mixture.em import Solution, solve
from kgcore.mixture.labels import Rate
from kgcore.mixture.level import p_values
from kgcore.mixture.strength import flat_likelihood

_COARSE, _FINE = 33, 9  # points of the two grids on which the profile is computed


@dataclass(frozen=True)
class Profile:
    """The greatest likelihood at given base rates.

    alphas      (m,) ascending base rates, in [0, 1]
    likelihood  (m,) greatest log-likelihood at each, less the greatest of all: at most 0
    p_values    (m,) of the hypothesis that this is the base rate
    """

    alphas: Floats
    likelihood: Floats
    p_values: Floats


def base_rate_interval(counts: Counts, best: Solution, level: float) -> tuple[Rate, Profile]:
    """Return the estimated base rate with its confidence interval, and the profile that the interval is read from.

    counts  one problem (S = 1), and `best` its solution with a free base rate
    level   the least p-value of a base rate in the interval: see `interval_level`

    This is a profile-likelihood interval. Its limit is that of chi-square with one degree of freedom where the base
    rate is well determined, and higher where it is not (see `conditional_p_value`). Between grid points the p-value is
    interpolated.
    """
    most = max(2.0, float(counts.candidates.sum()))
    ends = np.log(20 * most)
    value = float(best.weights[0, 0])
    coarse = np.r_[0.0, np.sort(np.r_[expit(np.linspace(-ends, ends, _COARSE)), np.clip(value, 1e-12, 1 - 1e-12)]), 1.0]
    flat = flat_likelihood(counts)
    profile = profile_at(coarse, counts, best, flat)
    more = [_between(profile, start, level) for start in _crossings(profile, level)]
    if more:
        fine = profile_at(np.concatenate(more), counts, best, flat)
        profile = _join(profile, fine)
    low, high = _limits(profile, level)
    return Rate(value, min(low, value), max(high, value)), profile


def profile_at(alphas: Floats, counts: Counts, best: Solution, flat: Floats) -> Profile:
    """Return the profile of one problem at base rates (m,) in [0, 1], ascending.

    flat  (1,) the log-likelihood if positives are a mixture of corruptions
    """
    m = len(alphas)
    many = counts.repeat(m)
    solved = solve(many, alphas, start=best.repeat(m))
    likelihood = np.minimum(solved.likelihood - best.likelihood, 0.0)
    return Profile(alphas, likelihood, p_values(many, solved, best.likelihood, flat))


def _crossings(profile: Profile, level: float) -> list[int]:
    """Return the first and the last position i where the p-value crosses the level between alphas i and i + 1."""
    inside = profile.p_values >= level
    places = np.flatnonzero(inside[1:] != inside[:-1])
    return sorted({int(places[0]), int(places[-1])}) if len(places) else []


def _between(profile: Profile, start: int, level: float) -> Floats:
    return np.linspace(profile.alphas[start], profile.alphas[start + 1], _FINE + 2)[1:-1]


def _join(first: Profile, second: Profile) -> Profile:
    alphas = np.r_[first.alphas, second.alphas]
    order = np.argsort(alphas, kind="stable")
    joined = (np.r_[a, b][order] for a, b in ((first.likelihood, second.likelihood), (first.p_values, second.p_values)))
    return Profile(alphas[order], *joined)


def _limits(profile: Profile, level: float) -> tuple[float, float]:
    """Return the lowest and the highest base rate with a p-value of at least `level`, interpolated."""
    a, p = profile.alphas, profile.p_values
    inside = np.flatnonzero(p >= level)
    if not len(inside):
        return 1.0, 0.0  # narrower than the grid: the caller adds the estimate
    first, last = int(inside[0]), int(inside[-1])

    def cross(out: int, within: int) -> float:
        return float(a[out] + (a[within] - a[out]) * (level - p[out]) / (p[within] - p[out]))

    low = cross(first - 1, first) if first else float(a[0])
    high = cross(last + 1, last) if last + 1 < len(a) else float(a[-1])
    return low, high
