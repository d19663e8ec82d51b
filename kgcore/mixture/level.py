"""The level that the p-value of a base rate must reach, so that the interval covers as often as it states."""

import numpy as np
from scipy.special import chdtrc, chdtri

from kgcore.arrays import Floats, Ints
from kgcore.mixture.bins import Counts
from kgcore.mixture.draws import simulate
from kgcore.mixture.em import Solution, log_likelihood, solve
from kgcore.mixture.strength import conditional_p_value, flat_likelihood, strength_of

_TAIL = 0.2  # share of the simulated ratios, the largest ones: their mean is compared with that of chi-square


def interval_level(
    counts: Counts,
    best: Solution,
    confidence: float,
    replicates: int,
    rng: np.random.Generator,
) -> float:
    """Return the level in (0, 1 - confidence] that a base rate's p-value must reach to be in the interval.

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
    return float(chdtrc(1, factor * chdtri(1, 1 - confidence)))


def p_values(counts: Counts, at: Solution, greatest: Floats, flat: Floats) -> Floats:
    """Return the p-value (S,) of the base rate of each solution `at`.

    greatest  (S,) the greatest log-likelihood of each problem
    flat      (S,) the log-likelihood if positives are a mixture of the corruptions
    """
    _, num, bins = counts.components.shape
    ratio = np.maximum(2 * (greatest - at.likelihood), 0.0)
    return conditional_p_value(ratio, strength_of(counts, at, flat), max(1, bins - num + 1))


def needed(counts: Counts, best: Solution) -> Solution:
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
        solved = _with_zeros(counts, solve(_of(counts, fewer)), fewer)
        if 2 * (greatest - _likelihood(counts, solved)) > most:
            break
        kept, chosen = fewer, solved
    return chosen


def _of(counts: Counts, kept: Ints) -> Counts:
    return Counts(counts.candidates, counts.components[:, kept], counts.true, counts.false)


def _likelihood(counts: Counts, solved: Solution) -> float:
    return float(log_likelihood(counts, solved.weights, solved.densities)[0])


def _with_zeros(counts: Counts, solved: Solution, kept: Ints) -> Solution:
    """Return the solution for all components. Those that are not kept have weight 0 and their observed density."""
    weights = np.zeros(counts.components.shape[:2])
    weights[:, kept] = solved.weights
    densities = counts.components / counts.components.sum(axis=-1, keepdims=True)
    densities[:, kept] = solved.densities
    return Solution(weights, densities, log_likelihood(counts, weights, densities))
