"""Combiners without labels: from known positives, unlabelled candidates, and corruptions.

The candidates are a mixture g = alpha f+ + (1 - alpha) f-, with a stated base rate alpha and an unknown density f- of
the mistakes in the space of the evidence. Positives of the density f+ are known. Then the logistic risk of log-odds z
needs no label (du Plessis et al. 2015, equation 7, with the logistic loss):

    R(z) = E_g[log(1 + exp z)] - alpha E_f+[z],

and so does the Brier score of probabilities q: E_g[q^2] - 2 alpha E_f+[q] + alpha.

The members are one combiner for each corruption strategy, which separates positives from its corruptions, and one that
separates positives from the candidates: alpha f+ / g is the probability (Elkan & Noto 2008), whatever the mistakes
look like. The weights of the sum of their log-odds minimise R, which is convex in the weights. So a strategy whose
corruptions do not resemble the mistakes gets no weight.

All of this assumes that true candidates are like the known positives. Then g is at least alpha f+ everywhere, so for
each threshold t of the probabilities q

    D(t) = alpha P_f+(q >= t) - P_g(q >= t) <= 0.

If D(t) > 0, the share D(t) / alpha of the true candidates, or a larger one, has other evidence than the positives. A
combiner that tells positives from candidates has then learned how the positives were collected, not what is true.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from kgcore.arrays import Floats, Ints, Probabilities
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.stack import Stack
from kgcore.folds import draw_folds
from kgcore.newton import Matrix, minimise

CORRUPTIONS = 5  # most corruptions of a strategy that a combiner is fitted to, for each positive
RIDGE = 1e-3  # of the weights, towards equal shares of 1
SURE = 3.0  # standard errors by which D must be above 0
MOST = 1e-4  # probabilities of candidates are at least this, and at most 1 - this


@dataclass(frozen=True)
class Rows:
    """The evidence of triples of one kind.

    values      (n, d) features
    predicates  (n,) their predicates
    groups      (n,) rows of one group are in one fold: a positive, its corruptions, and the equal candidate
    """

    values: npt.NDArray[np.float32]
    predicates: Ints
    groups: Ints

    def __len__(self) -> int:
        return len(self.groups)

    def part(self, rows: npt.NDArray[np.bool_]) -> "Rows":
        """Return the rows that a mask chooses."""
        return Rows(self.values[rows], self.predicates[rows], self.groups[rows])


@dataclass(frozen=True)
class Unlabelled:
    """The evidence without labels.

    features    (d) names of the features
    positives   true triples that the model was not trained on. They may be candidates, too
    negatives   name of a strategy -> its corruptions of the positives
    candidates  triples without labels
    base_rate   share of true triples among the candidates, in (0, 1)
    """

    features: tuple[str, ...]
    positives: Rows
    negatives: Mapping[str, Rows]
    candidates: Rows
    base_rate: float


@dataclass(frozen=True)
class HeldOut:
    """Log-odds that combiners give to rows that they have not seen, at the base rate of the candidates."""

    positives: Floats
    negatives: Mapping[str, Floats]
    candidates: Floats

    @property
    def every(self) -> list[Floats]:
        """Return the log-odds of the positives, of the corruptions of each strategy, and of the candidates."""
        return [self.positives, *self.negatives.values(), self.candidates]


def fit_unlabelled(
    name: str, make: Callable[[], Combiner], data: Unlabelled, folds: int, rng: np.random.Generator, rounds: int = 1
) -> tuple[Stack, HeldOut]:
    """Fit a combiner without labels. Return it, and log-odds of all rows by combiners that have not seen their group.

    name, make  registered name of the members, and a function that returns an unfitted one
    folds       parts of the groups, at least 2
    rounds      number of divisions into parts, at least 1. With more than one, the mean of the combiners of all parts
                and divisions is returned, as by `cross_fit`

    Raises FitError if the fit of the weights does not converge.
    """
    kinds = [data.positives, *data.negatives.values(), data.candidates]
    every = np.unique(np.concatenate([rows.groups for rows in kinds]))
    held_out = [np.zeros((len(rows), len(data.negatives) + 1)) for rows in kinds]
    full = _members([make] * (len(data.negatives) + 2), data, kinds, rng)
    of_parts: list[list[Combiner]] = []
    numbers, alike = np.arange(len(every)), np.zeros(len(every))
    divisions = [draw_folds(numbers, alike, folds, rng) for _ in range(rounds)]
    for of_group, fold in product(divisions, range(folds)):
        own = [of_group[np.searchsorted(every, rows.groups)] == fold for rows in kinds]
        trained = [rows.part(~held) for rows, held in zip(kinds, own, strict=True)]
        members = _members([member.tuned for member in full], data, trained, rng)[:-1]
        for rows, held, into in zip(kinds, own, held_out, strict=True):
            into[held] += _columns(members, rows.part(held)) / rounds
        of_parts.append(members)
    weights, constant = stack_weights(held_out[0], held_out[-1], data.base_rate)
    sums = [columns @ weights + constant for columns in held_out]
    answering, used = [full] if rounds == 1 else of_parts, np.flatnonzero(weights)
    shares = np.tile(weights[used] / len(answering), len(answering))
    chosen = tuple(members[i] for members in answering for i in used)
    stack = Stack((name,) * len(chosen), chosen, tuple(shares.tolist()), float(constant))
    return stack, HeldOut(sums[0], dict(zip(data.negatives, sums[1:-1], strict=True)), sums[-1])


def stack_weights(
    positives: Floats, candidates: Floats, base_rate: float, counts: Floats | None = None
) -> tuple[Floats, float]:
    """Return weights (m,) of at least 0, and a constant, that minimise the risk R of the weighted sum.

    positives   (n, m) log-odds of the members for the positives
    candidates  (u, m) log-odds of the members for the candidates
    base_rate   alpha, in (0, 1)
    counts      (u,) weights of the candidates, of any scale; None: 1

    Raises FitError if the fit does not converge.
    """
    scale = np.maximum(np.abs(candidates).mean(axis=0), 1e-9)
    mean = positives.mean(axis=0)
    shares = np.full(len(candidates), 1 / len(candidates)) if counts is None else counts / counts.sum()

    design, m = np.column_stack([candidates / scale, np.ones(len(candidates))]), positives.shape[1]
    known, ridge = base_rate * np.append(mean / scale, 1.0), np.append(np.full(m, RIDGE), 0.0)

    def risk(v: Floats) -> float:
        return float(shares @ np.logaddexp(0, design @ v) - known @ v + 0.5 * ridge @ v**2)

    def derivatives(v: Floats) -> tuple[Floats, Matrix]:
        q = expit(design @ v)
        curvature = (design.T * (shares * q * (1 - q))) @ design + np.diag(ridge)
        return design.T @ (shares * q) - known + ridge * v, curvature

    start, bounded = np.append(scale / m, logit(base_rate)), np.arange(m + 1) < m
    fitted = minimise("the weights of the combiners", risk, derivatives, start, bounded)
    return fitted[:-1] / scale, float(fitted[-1])


def unlabelled_brier(positives: Probabilities, candidates: Probabilities, base_rate: float) -> float:
    """Return the Brier score of probabilities for the candidates, without labels: see above.

    positives   (n,) probabilities of the positives, at the base rate of the candidates
    candidates  (u,) probabilities of the candidates
    base_rate   alpha, in (0, 1)

    Its expected value is that of the Brier score with labels, if the positives are like the true candidates.
    """
    return float((candidates**2).mean() - 2 * base_rate * positives.mean() + base_rate)


@dataclass(frozen=True)
class Unlike:
    """How many true candidates cannot be like the positives, and what that costs.

    share  estimate of the least share of the true candidates that are unlike the positives, in [0, 1]; 0: no sure sign
    cost   what the Brier score of `unlabelled_brier` lacks for this reason, at least 0
    """

    share: float
    cost: float


def unlike(positives: Probabilities, candidates: Probabilities, base_rate: float) -> Unlike:
    """Return how many true candidates cannot be like the positives, by probabilities that have not seen the rows.

    positives   (n,) probabilities of the positives
    candidates  (u,) probabilities of the candidates
    base_rate   alpha, in (0, 1)

    The threshold t is where D(t) - SURE se(t) is largest, with the standard error se of D. If this is above 0, the
    share is D(t) / alpha. These true candidates are below the threshold, where `cost` gives them the mean probability
    of the candidates there, instead of that of the positives above it: so the term -2 alpha E_f+[q] of the Brier score
    grows by twice this difference for each of them.
    """
    n, u = len(positives), len(candidates)
    limits = np.unique(positives)
    true = 1 - np.searchsorted(np.sort(positives), limits) / n
    every = 1 - np.searchsorted(np.sort(candidates), limits) / u
    most = np.maximum(every, base_rate * true)  # that the candidates have at least, if they are alike
    error = np.sqrt(base_rate**2 * true * (1 - true) / n + most * (1 - most) / u)
    excess = base_rate * true - every
    best = int(np.argmax(excess - SURE * error))
    below = candidates < limits[best]
    if excess[best] <= SURE * error[best] or not below.any():
        return Unlike(0.0, 0.0)
    gap = float(positives[positives >= limits[best]].mean() - candidates[below].mean())
    return Unlike(float(excess[best]) / base_rate, 2 * float(excess[best]) * gap)


def _members(
    makers: Sequence[Callable[[], Combiner]], data: Unlabelled, kinds: list[Rows], rng: np.random.Generator
) -> list[Combiner]:
    """Fit one combiner for each strategy, one for the candidates, and the one that it started from.

    makers  functions that return unfitted combiners, in this order

    All strategies have the settings that the fit to the first one chooses. The log-odds are at the base rate 1/2.
    """
    positives, *negatives, candidates = kinds
    *strategies, second, first = makers
    members: list[Combiner] = []
    for make, own in zip(strategies, negatives, strict=True):
        few = _sample(data, positives, _some(own, CORRUPTIONS * len(positives), rng))
        members.append((members[0].tuned() if members else make()).fit(few, rng))
    start = first().fit(_sample(data, positives, candidates), rng)
    ratio = np.exp(start.log_odds(candidates.values, candidates.predicates))
    q = (data.base_rate * ratio).clip(MOST, 1 - MOST)
    return [*members, second().fit(_soft(data, positives, candidates, q), rng), start]


def _some(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """Return at most so many rows, drawn at random."""
    return rows if len(rows) <= most else rows.part(rng.permutation(np.arange(len(rows)) < most))


def _columns(members: list[Combiner], rows: Rows) -> Floats:
    return np.stack([member.log_odds(rows.values, rows.predicates) for member in members], axis=1)


def _sample(data: Unlabelled, positives: Rows, others: Rows) -> EvidenceSample:
    """Return positives and others with equal total weights."""
    n, m = len(positives), len(others)
    return _joined(
        data, [positives, others], np.r_[np.ones(n), np.zeros(m)], np.r_[np.full(n, 0.5 / n), np.full(m, 0.5 / m)]
    )


def _soft(data: Unlabelled, positives: Rows, candidates: Rows, q: Probabilities) -> EvidenceSample:
    """Return positives and candidates, each of these as true with the weight q and as false with 1 - q.

    True and false triples have equal total weights.
    """
    n, u = len(positives), len(candidates)
    labels = np.r_[np.ones(n + u), np.zeros(u)]
    weights = np.r_[np.ones(n), q, 1 - q]
    weights = np.where(labels == 1, weights / weights[labels == 1].sum(), weights / weights[labels == 0].sum())
    return _joined(data, [positives, candidates, candidates], labels, weights)


def _joined(data: Unlabelled, parts: list[Rows], labels: Floats, weights: Floats) -> EvidenceSample:
    values = np.concatenate([rows.values for rows in parts])
    predicates = np.concatenate([rows.predicates for rows in parts])
    return EvidenceSample(data.features, values, labels, weights / weights.mean(), predicates)
