"""The greatest likelihood of mixture weights and score densities, for many problems at once."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats
from kgcore.mixture.samples import BinCounts, smoothed

TOLERANCE = 1e-4  # a problem is solved when three iterations raise its log-likelihood by less than this
MOST_ITERATIONS = 6_000
_TINY = 1e-300
_START = 0.05  # share of equal weights in a start from another problem's weights: EM cannot leave a weight of 0


@dataclass(frozen=True)
class Solution:
    """The solutions of S problems.

    weights     (S, J) of the components; each row sums to 1. The first is the base rate
    densities   (S, J, B) probability of each bin under each component; each row sums to 1
    likelihood  (S,) greatest log-likelihood
    """

    weights: Floats
    densities: Floats
    likelihood: Floats

    def repeat(self, times: int) -> "Solution":
        """Return each solution `times` times, one copy after the other."""
        return Solution(*(np.repeat(array, times, axis=0) for array in (self.weights, self.densities, self.likelihood)))


@dataclass(frozen=True)
class _Problems:
    counts: BinCounts
    alpha: Floats | None  # (S,)
    prior: Floats  # (J,) or (S, J)

    def part(self, rows: Bools) -> "_Problems":
        return _Problems(self.counts.part(rows), None if self.alpha is None else self.alpha[rows], self.prior[rows])


def solve(
    counts: BinCounts, alpha: Floats | None = None, prior: Floats | None = None, start: Solution | None = None
) -> Solution:
    """Maximise the likelihood of every problem over the weights w and the densities p:

        sum_b c_b log sum_j w_j p_jb + sum_b t_b log w_0 p_0b + sum_b f_b log sum_{j>0} w_j p_jb
            + sum_jb x_jb log p_jb + sum_j v_j log w_j

    with counts c of candidates, t and f of candidates labelled as true and as false, and x of the components. The
    densities are parameters, too: so the likelihood counts the finite samples of the components (Barlow & Beeston,
    Computer Physics Communications 77, 1993). With known densities it would be concave in the weights.

    alpha  (S,) stated base rates in [0, 1], to which w_0 is fixed; None: w_0 is free
    prior  (J,) or (S, J) the v_j, at least 0, for problems with a stated base rate: a Dirichlet prior of the shares of
           the strategies. v_0 is not used. None: no prior
    start  solutions of S similar problems, from which to start; None: equal weights

    The iterations are those of EM (Dempster, Laird & Rubin 1977), extrapolated by SQUAREM (Varadhan & Roland,
    Scandinavian Journal of Statistics 35, 2008). An extrapolation that lowers the likelihood is not used.
    """
    size, num, _ = counts.components.shape
    fixed = None if alpha is None else np.broadcast_to(np.asarray(alpha, dtype=np.float64), (size,))
    priors = np.broadcast_to(np.zeros(num) if prior is None else prior, (size, num))
    problems = _Problems(counts, fixed, priors)
    if start is None:
        weights, densities = np.full((size, num), 1 / num), counts.components.copy()
    else:
        weights, densities = (1 - _START) * start.weights + _START / num, start.densities + counts.components / 1e3
    densities = densities / densities.sum(axis=-1, keepdims=True)
    return _iterate(problems, _with_base_rate(weights, fixed), densities)


def _iterate(problems: _Problems, weights: Floats, densities: Floats) -> Solution:
    """Iterate until every problem is solved. A solved problem is left out of later iterations."""
    likelihood = log_likelihood(problems.counts, weights, densities, problems.prior)
    left, unsolved = np.arange(len(weights), dtype=np.int64), problems
    for _ in range(MOST_ITERATIONS // 3):
        w, p, value = _cycle(unsolved, weights[left], densities[left], likelihood[left])
        gain = value - likelihood[left]
        weights[left], densities[left], likelihood[left] = w, p, value
        keep = gain > TOLERANCE
        if not keep.any():
            break
        if not keep.all():
            left, unsolved = left[keep], unsolved.part(keep)
    return Solution(weights, densities, likelihood)


def _cycle(problems: _Problems, w: Floats, p: Floats, before: Floats) -> tuple[Floats, Floats, Floats]:
    """Return weights, densities and log-likelihoods after two steps of EM, and a third one if extrapolation helps."""
    w1, p1 = _step(problems, w, p)
    w2, p2 = _step(problems, w1, p1)
    change_w, change_p = w1 - w, p1 - p
    curve_w, curve_p = w2 - w1 - change_w, p2 - p1 - change_p
    square = (change_w**2).sum(axis=-1) + (change_p**2).sum(axis=(1, 2))
    bend = (curve_w**2).sum(axis=-1) + (curve_p**2).sum(axis=(1, 2))
    far = np.maximum(np.sqrt(square / np.maximum(bend, _TINY)), 1.0)[:, None]
    w3 = np.maximum(w + 2 * far * change_w + far**2 * curve_w, w2 / 100)
    p3 = np.maximum(p + 2 * far[..., None] * change_p + far[..., None] ** 2 * curve_p, p2 / 100)
    w3 = _with_base_rate(w3, problems.alpha)
    w3, p3 = _step(problems, w3, p3 / p3.sum(axis=-1, keepdims=True))
    value = log_likelihood(problems.counts, w3, p3, problems.prior)
    worse = value < before
    if worse.any():
        fallen = problems.part(worse)
        w3[worse], p3[worse] = w2[worse], p2[worse]
        value[worse] = log_likelihood(fallen.counts, w2[worse], p2[worse], fallen.prior)
    return w3, p3, value


def _step(problems: _Problems, w: Floats, p: Floats) -> tuple[Floats, Floats]:
    """Return weights and densities after one step of EM."""
    counts = problems.counts
    parts = w[..., None] * p
    expected = parts * (counts.candidates / np.maximum(parts.sum(axis=1), _TINY))[:, None]
    if counts.labels:
        expected[:, 0] += counts.true
        wrong = parts[:, 1:]
        expected[:, 1:] += wrong * (counts.false / np.maximum(wrong.sum(axis=1), _TINY))[:, None]
    densities = counts.components + expected
    densities /= densities.sum(axis=-1, keepdims=True)
    return _with_base_rate(expected.sum(axis=-1) + problems.prior, problems.alpha), densities


def _with_base_rate(weights: Floats, alpha: Floats | None) -> Floats:
    """Scale weights (S, J) to sum 1. If base rates (S,) are given, these are the first weights."""
    if alpha is None:
        scaled: Floats = weights / weights.sum(axis=-1, keepdims=True)
        return scaled
    rest = weights[:, 1:] + _TINY
    return np.concatenate([alpha[:, None], rest * ((1 - alpha) / rest.sum(axis=-1))[:, None]], axis=1)


def log_likelihood(counts: BinCounts, weights: Floats, densities: Floats, prior: Floats | None = None) -> Floats:
    """Return the log-likelihood (S,) of `solve`, at weights (S, J) and densities (S, J, B)."""
    parts = weights[..., None] * densities
    value = (counts.candidates * _log(parts.sum(axis=1))).sum(axis=-1)
    value = value + (counts.components * _log(densities)).sum(axis=(1, 2))
    if counts.labels:
        value += (counts.true * _log(parts[:, 0]) + counts.false * _log(parts[:, 1:].sum(axis=1))).sum(axis=-1)
    if prior is not None:
        value = value + np.where(prior > 0, prior * _log(weights), 0.0).sum(axis=-1)
    result: Floats = value
    return result


def _log(values: Floats) -> Floats:
    return np.log(np.maximum(values, _TINY))


def simulate(
    counts: BinCounts, solved: Solution, replicates: int, rng: np.random.Generator, shared: float = 0.0
) -> BinCounts:
    """Draw problems from the solution of one problem (S = 1): a parametric bootstrap. The samples keep their sizes.

    shared  share of the positives that are also candidates, in [0, 1]. The drawn problems share as many
    """
    parts = solved.weights[0][:, None] * solved.densities[0]
    sizes = counts.components[0].sum(axis=-1)
    rows = [_drawn_counts(n, p, replicates, rng) for n, p in zip(sizes, solved.densities[0], strict=True)]
    number = counts.candidates.sum()
    common = min(shared * sizes[0], solved.weights[0, 0] * number)
    others = np.maximum(number * parts.sum(axis=0) - common * solved.densities[0, 0], 0.0)
    candidates = common / sizes[0] * rows[0]
    if number - common >= 1:
        candidates = candidates + _drawn_counts(number - common, others, replicates, rng)
    labelled = np.concatenate([parts[0], parts[1:].sum(axis=0)])
    return BinCounts(candidates, smoothed(np.stack(rows, axis=1)), *_labels(counts, labelled, replicates, rng))


def resample(counts: BinCounts, replicates: int, rng: np.random.Generator) -> BinCounts:
    """Draw every sample of one problem (S = 1) again from its own bins: a bootstrap."""
    candidates = _drawn_counts(counts.candidates.sum(), counts.candidates[0], replicates, rng)
    rows = [_drawn_counts(component.sum(), component, replicates, rng) for component in counts.components[0]]
    labelled = np.concatenate([counts.true[0], counts.false[0]])
    return BinCounts(candidates, smoothed(np.stack(rows, axis=1)), *_labels(counts, labelled, replicates, rng))


def _drawn_counts(size: float, shares: Floats, replicates: int, rng: np.random.Generator) -> Floats:
    """Draw multinomial counts (replicates, B) of a sample of about `size` rows. Their sum is exactly `size`."""
    n = max(1, round(float(size)))
    drawn = rng.multinomial(n, shares / shares.sum(), replicates)
    return drawn.astype(np.float64) * (float(size) / n)


def _labels(counts: BinCounts, shares: Floats, replicates: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw the candidates labelled as true and as false (replicates, B). `shares` (2B,) has those of both."""
    if not counts.labels:
        nothing = np.zeros((replicates, counts.true.shape[-1]))
        return nothing, nothing
    true, false = np.split(_drawn_counts(counts.labels, shares, replicates, rng), 2, axis=1)
    return true, false
