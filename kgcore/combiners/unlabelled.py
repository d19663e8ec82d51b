"""Combiners without labels: from known positives, unlabelled candidates, and corruptions.

The candidates are a mixture g = alpha f+ + (1 - alpha) f-, with a stated base rate alpha and an unknown density f- of
the mistakes in the space of the evidence. Positives of the density f+ are known. Then the logistic risk of log-odds z
needs no label (`stack_weights`).

The members are one combiner for each corruption strategy, which separates positives from its corruptions, and one that
separates positives from the candidates: alpha f+ / g is the probability (Elkan & Noto 2008), whatever the mistakes
look like. The weights of the sum of their log-odds minimise R, which is convex in the weights. So a strategy whose
corruptions do not resemble the mistakes gets no weight.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Ints, Probabilities, draw_folds
from kgcore.calibrate.logistic import stack_weights
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.joined import Stack

CORRUPTIONS = 5  # most corruptions of a strategy that a combiner is fitted to, for each positive
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


def fit_unlabelled(
    name: str,
    make: Callable[[], Combiner],
    features: tuple[str, ...],
    kinds: Sequence[Rows],
    base_rate: float,
    folds: int,
    rng: np.random.Generator,
    rounds: int = 1,
) -> tuple[Stack, list[Floats]]:
    """Fit a combiner without labels.

    Return it, and for each kind of rows log-odds by combiners that have not seen their group, at the base rate.

    name, make registered name of the members, and a function that returns an unfitted one
    features   (d) names of the features
    kinds      positives, true triples that the model was not trained on; their corruptions by each strategy; candidates
               without labels. A candidate may be one of the positives
    base_rate  share of true triples among the candidates, in (0, 1)
    folds      parts of the groups, at least 2
    rounds     number of divisions into parts, at least 1. With more than one, the mean of the combiners of all parts
               and divisions is returned, as by `cross_fit`

    Raises FitError if the fit of the weights does not converge.
    """
    every = np.unique(np.concatenate([rows.groups for rows in kinds]))
    held_out = [np.zeros((len(rows), len(kinds) - 1)) for rows in kinds]
    full = _members([make] * len(kinds), features, kinds, base_rate, rng)
    of_parts: list[list[Combiner]] = []
    numbers, alike = np.arange(len(every)), np.zeros(len(every))
    divisions = [draw_folds(numbers, alike, folds, rng) for _ in range(rounds)]
    for of_group, fold in product(divisions, range(folds)):
        of_fold = [of_group[np.searchsorted(every, rows.groups)] == fold for rows in kinds]
        trained = [rows.part(~held) for rows, held in zip(kinds, of_fold, strict=True)]
        members = _members([member.tuned for member in full], features, trained, base_rate, rng)[:-1]
        for rows, held, into in zip(kinds, of_fold, held_out, strict=True):
            into[held] += _columns(members, rows.part(held)) / rounds
        of_parts.append(members)
    weights, constant = stack_weights(held_out[0], held_out[-1], base_rate)
    answering, used = [full] if rounds == 1 else of_parts, np.flatnonzero(weights)
    shares = np.tile(weights[used] / len(answering), len(answering))
    chosen = tuple(members[i] for members in answering for i in used)
    stack = Stack((name,) * len(chosen), chosen, tuple(shares.tolist()), float(constant))
    return stack, [columns @ weights + constant for columns in held_out]


def _members(
    makers: Sequence[Callable[[], Combiner]],
    features: tuple[str, ...],
    kinds: Sequence[Rows],
    base_rate: float,
    rng: np.random.Generator,
) -> list[Combiner]:
    """Fit one combiner for each strategy, one for the candidates, and the one that it started from, by `makers`.

    All strategies have the settings that the fit to the first one chooses. The log-odds are at the base rate 1/2.
    """
    positives, *negatives, candidates = kinds
    *strategies, second, first = makers
    members: list[Combiner] = []
    for make, corruptions in zip(strategies, negatives, strict=True):
        few = _sample(features, positives, _some(corruptions, CORRUPTIONS * len(positives), rng))
        members.append((members[0].tuned() if members else make()).fit(few, rng))
    start = first().fit(_sample(features, positives, candidates), rng)
    ratio = np.exp(start.log_odds(candidates.values, candidates.predicates))
    q = (base_rate * ratio).clip(MOST, 1 - MOST)
    return [*members, second().fit(_soft(features, positives, candidates, q), rng), start]


def _some(rows: Rows, most: int, rng: np.random.Generator) -> Rows:
    """Return at most `most` rows, drawn at random."""
    return rows if len(rows) <= most else rows.part(rng.permutation(np.arange(len(rows)) < most))


def _columns(members: list[Combiner], rows: Rows) -> Floats:
    return np.stack([member.log_odds(rows.values, rows.predicates) for member in members], axis=1)


def _sample(features: tuple[str, ...], positives: Rows, others: Rows) -> EvidenceSample:
    """Return positives and others with equal total weights."""
    n, m = len(positives), len(others)
    labels, weights = np.r_[np.ones(n), np.zeros(m)], np.r_[np.full(n, 0.5 / n), np.full(m, 0.5 / m)]
    return _joined(features, [positives, others], labels, weights)


def _soft(features: tuple[str, ...], positives: Rows, candidates: Rows, q: Probabilities) -> EvidenceSample:
    """Return positives, and candidates as true with weight q and false with 1 - q. True and false weigh the same."""
    n, u = len(positives), len(candidates)
    labels = np.r_[np.ones(n + u), np.zeros(u)]
    weights = np.r_[np.ones(n), q, 1 - q]
    weights = np.where(labels == 1, weights / weights[labels == 1].sum(), weights / weights[labels == 0].sum())
    return _joined(features, [positives, candidates, candidates], labels, weights)


def _joined(features: tuple[str, ...], parts: list[Rows], labels: Floats, weights: Floats) -> EvidenceSample:
    values = np.concatenate([rows.values for rows in parts])
    predicates = np.concatenate([rows.predicates for rows in parts])
    return EvidenceSample(features, values, labels, weights / weights.mean(), predicates)
