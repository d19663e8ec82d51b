"""The confidence interval of the base rate of candidates, from their scores, and from labels alone."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtr, chdtrc, chdtri, expit, roots_jacobi

from kgcore.arrays import Floats, Ints, Labels, as_labels
from kgcore.calibrate.support import CONFIDENCE, exact_limits
from kgcore.errors import FitError, InputError
from kgcore.mixture.em import Solution, log_likelihood, simulate, solve
from kgcore.mixture.samples import BinCounts

MOST_LABELS = 10_000_000
MOST_ODDS = 4.0  # an interval whose ends differ by a larger factor in odds does not determine a base rate
_NODES = 64
_MOST_STEPS, _TOLERANCE, _TINY = 2_000, 1e-4, 1e-300
_TAIL = 0.2  # share of the simulated ratios, the largest ones: their mean is compared with that of chi-square
_COARSE, _FINE = 33, 9  # points of the two grids on which the profile is computed


@dataclass(frozen=True)
class Rate:
    """A share and its confidence interval, each in [0, 1]."""

    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """Return high - low."""
        return self.high - self.low

    def is_narrow(self, width: float) -> bool:
        """Return whether the interval is at most `width` wide, and its ends differ by at most MOST_ODDS in odds.

        The second condition counts at low base rates: 0.001 to 0.05 is narrow, but says little.
        """
        return is_narrow(self.low, self.high, width)


def is_narrow(low: float, high: float, width: float) -> bool:
    """Return whether high - low <= width, and the odds of high are at most MOST_ODDS times those of low."""
    return high - low <= width and high * (1 - low) <= MOST_ODDS * low * (1 - high)


def labelled_rate(labels: Labels) -> Rate:
    """Estimate the base rate of candidates from the labels (n,) of some that were drawn at random.

    The interval is the exact one of Clopper & Pearson (Biometrika 26, 1934): it holds the base rate with at least the
    probability CONFIDENCE. Raises FitError without a label, InputError for labels other than 0 and 1.
    """
    checked = as_labels(labels)
    if not len(checked):
        raise FitError("there are no labels: a base rate needs at least one, of a candidate drawn at random")
    true = float(checked.sum())
    low, high = exact_limits(true, float(len(checked)))
    return Rate(true / len(checked), low, high)


def labelled_rates(labels: Labels, predicates: Ints) -> dict[int, Rate]:
    """Return predicate -> base rate, from the labels (n,) and predicates (n,) of random candidates, as above."""
    return {predicate: labelled_rate(labels[predicates == predicate]) for predicate in np.unique(predicates).tolist()}


def labels_needed(rate: Rate, width: float) -> int:
    """Return the least number of labels whose exact interval is narrow enough: see `is_narrow`.

    rate   what is known of the base rate. Of the rates in its interval, the one closest to 1/2 needs most labels for
           the width. The estimate itself, but at least a twentieth of the upper limit, counts for the odds
    width  in (0, 1)

    The interval is that of the expected number of true candidates. The result is at most MOST_LABELS.

    Raises InputError if `width` is out of range or too small.
    """
    if not 0 < width < 1:
        raise InputError(f"the width of the interval is {width:g}: it must be above 0 and below 1")
    hardest = float(np.clip(0.5, rate.low, rate.high))
    likely = float(np.clip(rate.value, rate.high / 20, 1 - (1 - rate.low) / 20))

    def too_wide(labels: int) -> bool:
        low, high = exact_limits(hardest * labels, labels)
        return high - low > width

    def wide(labels: int) -> bool:
        low, high = exact_limits(likely * labels, labels)
        return too_wide(labels) or not (is_narrow(low, high, 1.0) or labels == MOST_LABELS)

    if too_wide(MOST_LABELS):
        raise InputError(f"an interval of width {width:g} needs more than {MOST_LABELS:,} labels: ask for a wider one")
    few, enough = 0, 1
    while wide(enough):
        few, enough = enough, min(2 * enough, MOST_LABELS)
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (middle, enough) if wide(middle) else (few, middle)
    return enough


def conditional_p_value(ratio: Floats, strength: Floats, directions: int) -> Floats:
    """Return the p-value (n,) of a likelihood ratio, given how well the data can tell base rates apart.

    ratio       (n,) m = 2 (greatest log-likelihood - log-likelihood at the base rate), at least 0
    strength    (n,) r, at least 0: see `strength_of`
    directions  k, the number of directions in which positives and corruptions could differ, at least 1

    If positives look like corruptions, the base rate multiplies a difference that is mostly noise, and m is far larger
    than a chi-square variable with one degree of freedom. This is the problem of weak instruments. Moreira's
    conditional likelihood ratio test (Econometrica 71, 2003) solves it; by Andrews, Moreira & Stock (Journal of
    Econometrics 139, 2007) its p-value is

        1 - E F_k((r + m) / (1 + r S / m)),    S ~ Beta(1/2, (k - 1) / 2),

    where F_k is the distribution function of chi-square with k degrees of freedom. As r grows, the p-value tends to
    that of F_1. At r = 0, it is that of F_k.
    """
    m = np.maximum(np.asarray(ratio, dtype=np.float64), 1e-12)[:, None]
    r = np.asarray(strength, dtype=np.float64)[:, None]
    if directions == 1:
        return chdtrc(1, m[:, 0])
    nodes, weights = roots_jacobi(_NODES, (directions - 1) / 2 - 1, -0.5)
    s = (1 + nodes) / 2
    below = chdtr(directions, (r + m) / (1 + r * s / m)) @ (weights / weights.sum())
    p: Floats = 1 - below
    return p


def strength_of(counts: BinCounts, at: Solution, flat: Floats) -> Floats:
    """Return r (S,): how well each problem can tell base rates apart, at the solutions `at` for stated base rates.

    flat  (S,) the log-likelihood if positives are a mixture of the corruptions: see `flat_likelihood`

    r = 2 (log-likelihood at the base rate - flat) for the scores, plus the information of the labels about the base
    rate, in the same unit. With N candidates, P positives, n corruptions, L labels and base rate alpha, that is

        L / (alpha (1 - alpha)) (1/N + alpha^2/P + (1 - alpha)^2/n)^2 / (1/(N P) + 1/(N n) + 1/(P n)).

    The second factor changes the unit from the base rate to the angle by which it turns the estimated difference of
    positives and corruptions, in the metric of its covariance.
    """
    alone = BinCounts(counts.candidates, counts.components, np.zeros_like(counts.true), np.zeros_like(counts.false))
    r = np.maximum(2 * (log_likelihood(alone, at.weights, at.densities) - flat), 0.0)
    if not counts.labels:
        return r
    alpha = at.weights[:, 0]
    labels = (counts.true + counts.false).sum(axis=-1)
    candidates, positives = (
        1 / number for number in (counts.candidates.sum(axis=-1), counts.components[:, 0].sum(axis=-1))
    )
    corruptions = 1 / counts.components[:, 1:].sum(axis=(1, 2))
    variance = candidates + alpha**2 * positives + (1 - alpha) ** 2 * corruptions
    area = candidates * positives + candidates * corruptions + positives * corruptions
    known = labels / np.maximum(alpha * (1 - alpha), 1e-9)
    strength: Floats = r + known * variance**2 / area
    return strength


def flat_likelihood(counts: BinCounts) -> Floats:
    """Return the greatest log-likelihood (S,) if positives and candidates are both mixtures of the corruptions.

    It has the terms of candidates and components in `solve`, without those of labels.
    """
    mixed = np.stack([counts.components[:, 0], counts.candidates], axis=1)
    rows = counts.components[:, 1:]
    size, num, _ = rows.shape
    w, p, value = np.full((size, 2, num), 1 / num), rows / rows.sum(axis=-1, keepdims=True), np.full(size, -np.inf)
    for _ in range(_MOST_STEPS):
        share = np.maximum(w @ p, _TINY)
        new = (mixed * np.log(share)).sum(axis=(1, 2)) + (rows * np.log(np.maximum(p, _TINY))).sum(axis=(1, 2))
        if (new - value < _TOLERANCE).all():
            break
        value = new
        ratio = mixed / share
        expected_w = w * (ratio @ p.transpose(0, 2, 1))
        p = rows + p * (w.transpose(0, 2, 1) @ ratio)
        w, p = expected_w / expected_w.sum(axis=-1, keepdims=True), p / p.sum(axis=-1, keepdims=True)
    result: Floats = new
    return result


def interval_level(
    counts: BinCounts,
    best: Solution,
    replicates: int,
    rng: np.random.Generator,
) -> float:
    """Return the level in (0, 1 - CONFIDENCE] that a base rate's p-value must reach to be in the interval.

    If no mistake resembles some strategy, its weight is 0, the end of its range. Then likelihood ratios are somewhat
    larger than chi-square (Self & Liang, JASA 82, 1987). So the ratios are simulated (a parametric bootstrap, as in
    Beran, JASA 83, 1988). The simulation uses the fitted mixture without the strategies that it does not need. If the
    mean of the largest fifth of the ratios is c times that of chi-square, the quantile of chi-square is multiplied by
    c, but at least by 1.

    counts  one problem (S = 1), and `best` its solution with a free base rate
    """
    solved = needed(counts, best)
    drawn = simulate(counts, solved, replicates, rng)
    alphas = np.full(replicates, solved.weights[0, 0])
    start = solved.repeat(replicates)
    at, free = solve(drawn, alphas, start=start), solve(drawn, start=start)
    p = p_values(drawn, at, free.likelihood, flat_likelihood(drawn))
    ratios = np.sort(chdtri(1, np.clip(p, 1e-250, 1.0)))[-max(1, round(_TAIL * replicates)) :]
    expected = chdtrc(3, chdtri(1, _TAIL)) / _TAIL  # E[X | X > x] of chi-square with one degree of freedom
    factor = max(1.0, float(ratios.mean()) / float(expected))
    return float(chdtrc(1, factor * chdtri(1, 1 - CONFIDENCE)))


def p_values(counts: BinCounts, at: Solution, greatest: Floats, flat: Floats) -> Floats:
    """Return the p-value (S,) of the base rate of each solution `at`.

    greatest  (S,) the greatest log-likelihood of each problem
    flat      (S,) the log-likelihood if positives are a mixture of the corruptions
    """
    _, num, bins = counts.components.shape
    ratio = np.maximum(2 * (greatest - at.likelihood), 0.0)
    return conditional_p_value(ratio, strength_of(counts, at, flat), max(1, bins - num + 1))


def needed(counts: BinCounts, best: Solution) -> Solution:
    """Return the solution of one problem in which strategies that are not needed have the weight 0.

    The strategy of the smallest weight is left out as long as twice the log-likelihood falls by less than log N from
    its greatest value, for N candidates (the criterion of Schwarz, Annals of Statistics 6, 1978).
    """
    num = counts.components.shape[1]
    kept: Ints = np.arange(num)
    most = float(np.log(max(2.0, counts.candidates.sum() + counts.labels)))
    chosen, greatest = best, _likelihood(counts, best)
    while len(kept) > 2:
        fewer = np.delete(kept, 1 + int(chosen.weights[0, kept[1:]].argmin()))
        solved = _with_zeros(counts, solve(replace(counts, components=counts.components[:, fewer])), fewer)
        if 2 * (greatest - _likelihood(counts, solved)) > most:
            break
        kept, chosen = fewer, solved
    return chosen


def _likelihood(counts: BinCounts, solved: Solution) -> float:
    return float(log_likelihood(counts, solved.weights, solved.densities)[0])


def _with_zeros(counts: BinCounts, solved: Solution, kept: Ints) -> Solution:
    """Return the solution for all components. Those that are not kept have weight 0 and their observed density."""
    weights = np.zeros(counts.components.shape[:2])
    weights[:, kept] = solved.weights
    densities = counts.components / counts.components.sum(axis=-1, keepdims=True)
    densities[:, kept] = solved.densities
    return Solution(weights, densities, log_likelihood(counts, weights, densities))


@dataclass(frozen=True)
class Profile:
    """The p-values (m,) of the hypotheses that the base rate is each of `alphas` (m,), ascending, in [0, 1]."""

    alphas: Floats
    p_values: Floats


def base_rate_interval(counts: BinCounts, best: Solution, level: float) -> tuple[Rate, Profile]:
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
    profile = _profile_at(coarse, counts, best, flat)
    inside = profile.p_values >= level
    crossings = np.flatnonzero(inside[1:] != inside[:-1])
    if len(crossings):  # a finer grid where the p-value first and last crosses the level
        ends_of = {(coarse[start], coarse[start + 1]) for start in (crossings[0], crossings[-1])}
        fine = np.concatenate([np.linspace(*pair, _FINE + 2)[1:-1] for pair in sorted(ends_of)])
        added = _profile_at(fine, counts, best, flat)
        order = np.argsort(np.r_[coarse, fine], kind="stable")
        profile = Profile(np.r_[coarse, fine][order], np.r_[profile.p_values, added.p_values][order])
    low, high = _limits(profile, level)
    return Rate(value, min(low, value), max(high, value)), profile


def _profile_at(alphas: Floats, counts: BinCounts, best: Solution, flat: Floats) -> Profile:
    """Return the profile of one problem at base rates (m,) in [0, 1], ascending."""
    m = len(alphas)
    many = counts.repeat(m)
    solved = solve(many, alphas, start=best.repeat(m))
    return Profile(alphas, p_values(many, solved, best.likelihood, flat))


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
