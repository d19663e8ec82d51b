"""The map from log-odds of evidence to probabilities of a population's candidates, without labels.

Of N candidates, A are true, with the density f+ of the evidence. So the probability of a candidate is
q = A f+ / (N f_u). The log-odds z of a survey are log f+ / f_u up to a monotone error. The map is

    logit q = b_p + sum_k s_k h_k(z),    s_k >= 0,

piecewise linear in z, with a constant b_p for each predicate p. It minimises

    (m / A) [ sum_i c_i log(1 + exp(logit q_i)) - sum_j v_j logit q_j ]
        + sum_p b_p^2 / (2 tau^2) + rho sum_k (s_k - 1)^2 / 2.

The first sum is over drawn candidates with the weights c, the second one over m validation facts with weights v that
sum to the number of true candidates A_p in each predicate. Its expected value is the log loss of the candidates with
their unknown labels (du Plessis et al. 2015), and it is convex. Its gradient is zero where, above each knot of h, the
probabilities of the candidates sum to the number of true ones that the facts show there. The factor m / A makes it
worth as much as m observations, so that the priors weigh as they do in kgcore/calibrate/per_relation.py.

Where the statement asks for more true candidates than there are candidates with such evidence, this loss has no
minimum. So logit q_j counts no more than U = log(m + 1), the log-odds of the largest probability that m facts support:
min(logit q_j, U) takes its place, smooth by u - e log(1 + exp((u - U) / e)). The loss stays convex. Then all candidates
with such evidence are true, and the number of true ones is less than the stated one.

Predicates share the slopes. Then each of them gets (1 + a_p) (logit q - c) + c + d_p, where a_p and d_p minimise the
same loss with the priors a_p^2 / (2 tau^2) and d_p^2 / (2 tau^2), and c is the mean of logit q over the facts. A small
tau, TAU_OF_MAP, makes the probabilities: evidence about one predicate may be far stronger than about another, and with
larger ones lists of many small predicates have fewer true facts. The replicates of intervals have TAU.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from scipy.special import expit, logit

from kgcore.arrays import Floats, Ints
from kgcore.calibrate.logistic import Matrix, minimise, move_to
from kgcore.calibrate.per_relation import SMOOTH, RelationCounts, most_probable

TAU = 0.5  # standard deviation of the constants of predicates, and of their a and d in an interval
TAU_OF_MAP = 0.1  # of their a and d in a probability
RHO = 1.0  # weight of the prior of slopes
FEWEST_ABOVE = 30  # facts above the last knot
CELLS = 400  # cells of z for each predicate


@dataclass(frozen=True)
class Cells:
    """Cells of equal predicate and nearly equal z, of m candidates and f validation facts.

    place       (m + f,) number of the cell of a row
    z           (n,) mean log-odds of a cell
    predicates  (n,) position of its predicate among those of the population
    candidates, facts  (n,) numbers of candidates and of facts
    """

    place: Ints
    z: Floats
    predicates: Ints
    candidates: Floats
    facts: Floats

    @classmethod
    def of(cls, z: tuple[Floats, Floats], predicates: tuple[Ints, Ints], weights: Floats) -> "Cells":
        """Divide candidates (m,) and facts (f,) into cells, by their log-odds and predicates.

        weights  (m,) of the candidates

        The edges are quantiles of the facts and of the candidates. Each of the highest facts is an edge.
        """
        candidates, facts = z
        order = np.argsort(candidates)
        below = np.cumsum(weights[order])
        places = np.searchsorted(below, np.linspace(0, below[-1], CELLS // 2)).clip(max=len(below) - 1)
        levels = np.linspace(0, 1, CELLS // 2)
        edges = np.unique(np.r_[candidates[order][places], np.quantile(facts, levels), np.sort(facts)[-CELLS // 4 :]])
        every, width = np.concatenate(z), len(edges) + 1
        keys = np.concatenate(predicates) * width + np.searchsorted(edges, every)
        cells, place = np.unique(keys, return_inverse=True)
        counts = np.concatenate([weights, np.ones(len(facts))])
        mean = np.bincount(place, counts * every) / np.bincount(place, counts)
        empty = np.zeros(len(cells))
        return cls(place, mean, cells // width, empty, empty).counted(weights, np.ones(len(facts)))

    def counted(self, candidates: Floats, facts: Floats) -> "Cells":
        """Return the cells in which each candidate (m,) and each fact (f,) counts as a number of them."""
        n, size = len(candidates), len(self.z)
        numbers = (np.bincount(self.place[:n], candidates, size), np.bincount(self.place[n:], facts, size))
        return replace(self, candidates=numbers[0].astype(np.float64), facts=numbers[1].astype(np.float64))


@dataclass(frozen=True)
class LogOddsCurve:
    """The fitted map.

    knots      (k,) ascending
    slopes     (k + 1,) slope of logit q below the first knot, between two knots, and above the last one; at least 0
    constants  (p,) b_p plus the common constant, of each predicate of the population
    factors    (p,) 1 + a_p of each predicate; 1 for the map that predicates share
    """

    knots: Floats
    slopes: Floats
    constants: Floats
    factors: Floats

    def log_odds(self, z: Floats, predicates: Ints) -> Floats:
        """Return logit q (n,) of log-odds z (n,), for positions (n,) of predicates."""
        return self.factors[predicates] * (hinges(z, self.knots) @ self.slopes) + self.constants[predicates]

    def of_each_predicate(self, cells: Cells, true: Floats, tau: float) -> "LogOddsCurve":
        """Return the map with a slope and an offset for each predicate. The sum of the probabilities stays as it is.

        true  (p,) as in `fit_curve`
        tau   standard deviation of the slopes and of the offsets

        Raises FitError if the fit does not converge.
        """
        u, facts = self.log_odds(cells.z, cells.predicates), np.bincount(cells.predicates, cells.facts, len(true))
        most = float(np.log1p(facts.sum()))
        centre = float(np.average(np.minimum(u, most), weights=cells.facts))
        rows = cells.candidates * (facts / true)[cells.predicates]
        offset = np.full(len(true), centre)
        counts = RelationCounts(cells.predicates, u - centre, cells.facts, rows, cells.candidates, offset, most)
        theta, _ = most_probable(counts, np.zeros((2, len(true))), np.full(2, tau**2))
        mean = float(np.average(expit(u), weights=cells.candidates))
        factors, offsets = 1 + theta[0], theta[1] - theta[0] * centre
        offsets += move_to(counts.log_odds(theta) + centre, cells.candidates, mean)
        return replace(self, constants=factors * self.constants + offsets, factors=factors)

    def at(self, places: Ints) -> "LogOddsCurve":
        """Return a map in which the i-th predicate has what this one has at places[i]."""
        return replace(self, constants=self.constants[places], factors=self.factors[places])


def hinges(z: Floats, knots: Floats) -> Floats:
    """Return the functions h (n, k + 1): a weighted sum of them is piecewise linear, with the weights as slopes."""
    inner = [np.clip(z - low, 0, high - low) for low, high in pairwise(knots)]
    return np.stack([np.minimum(z - knots[0], 0), *inner, np.maximum(z - knots[-1], 0)], axis=1)


def knots_of(z: Floats) -> Floats:
    """Return the knots: quantiles of the log-odds (m,) of the facts.

    Above the median, each knot has half of the facts above the one before it, but at least FEWEST_ABOVE. So the map can
    bend near the top of a list, where a straight line would be extrapolated.
    """
    shares, above = [0.2, 0.5], 0.25
    while above * len(z) >= FEWEST_ABOVE:
        shares.append(1 - above)
        above /= 2
    return np.unique(np.quantile(z, shares))


def fit_curve(cells: Cells, true: Floats, knots: Floats, start: LogOddsCurve | None = None) -> LogOddsCurve:
    """Fit the map to cells.

    true   (p,) number A_p of true candidates of each predicate; its sum is above 0
    start  a map of similar cells, to start from

    Raises FitError if the fit does not converge.
    """
    risk = _Risk(hinges(cells.z, knots), cells, true)
    k, p = risk.columns.shape[1], len(true)
    first = np.r_[np.ones(k), logit(min(0.5, true.sum() / cells.candidates.sum())), np.zeros(p)]
    if start is not None:
        common = float(start.constants.mean())
        first = np.r_[start.slopes, common, start.constants - common]
    bounded = np.arange(len(first)) < k
    solution = minimise("the map from evidence to probabilities", risk.value, risk.derivatives, first, bounded)
    return LogOddsCurve(knots, solution[:k], solution[k] + solution[k + 1 :], np.ones(p))


class _Risk:
    """The loss that a map minimises, divided by the number m of facts. Its parameters are slopes, one constant for all
    predicates, and the constants of the predicates (k + 1 + p,).

    columns  (n, k) the functions h of the cells
    """

    def __init__(self, columns: Floats, cells: Cells, true: Floats) -> None:
        self.columns, self._cells, self._size = columns, cells, len(true)
        facts = np.bincount(cells.predicates, cells.facts, self._size)
        self._true = cells.facts * (true / np.maximum(facts, 1e-300))[cells.predicates]
        self._most = np.log1p(facts.sum())
        self._scale, self._prior = 1 / float(true.sum()), 1 / float(cells.facts.sum())
        penalties = np.r_[np.full(columns.shape[1], RHO), 0.0, np.full(self._size, TAU**-2)]
        self._penalties, self._centre = penalties, np.r_[np.ones(columns.shape[1]), np.zeros(1 + self._size)]

    def value(self, v: Floats) -> float:
        """Return the loss at parameters v."""
        u = self._log_odds(v)
        softplus = float(self._cells.candidates @ np.logaddexp(0, u))
        known = float(self._true @ (u - SMOOTH * np.logaddexp(0, (u - self._most) / SMOOTH)))
        away = v - self._centre
        return self._scale * (softplus - known) + self._prior / 2 * float(self._penalties @ away**2)

    def derivatives(self, v: Floats) -> tuple[Floats, Matrix]:
        """Return the gradient and the Hessian at parameters v."""
        u = self._log_odds(v)
        q, above = expit(u), expit((u - self._most) / SMOOTH)
        gradient = self._scale * self._sums(self._cells.candidates * q - self._true * (1 - above))
        gradient += self._prior * self._penalties * (v - self._centre)
        weights = self._cells.candidates * q * (1 - q) + self._true * above * (1 - above) / SMOOTH
        sums = [self._sums(weights * column) for column in self.columns.T]
        total = self._sums(weights)
        k = self.columns.shape[1]
        hessian = np.zeros((len(v), len(v)))
        hessian[:k] = np.array(sums).reshape(k, len(v))
        hessian[k], hessian[:, k] = total, total
        hessian[k + 1 :, :k] = hessian[:k, k + 1 :].T
        hessian[k + 1 :, k + 1 :] = np.diag(total[k + 1 :])
        return gradient, self._scale * hessian + np.diag(self._prior * self._penalties)

    def _log_odds(self, v: Floats) -> Floats:
        k = self.columns.shape[1]
        return self.columns @ v[:k] + v[k] + v[k + 1 :][self._cells.predicates]

    def _sums(self, weights: Floats) -> Floats:
        """Return the sums of weights (n,) times each function of the cells: (k + 1 + p,)."""
        of_predicates = np.bincount(self._cells.predicates, weights, self._size)
        sums: Floats = np.r_[self.columns.T @ weights, weights.sum(), of_predicates]
        return sums
