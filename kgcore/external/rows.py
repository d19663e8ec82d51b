"""Labelled scores of one scorer, in an order that does not depend on the order of the file."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats, Ints, Labels, Scores, Weights
from kgcore.calibration.balance import base_rate_weights
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.shift import check_base_rate
from kgcore.errors import FitError, InputError

CLIP = 1e-7  # probabilities are clipped to [CLIP, 1 - CLIP] before they become log-odds, as in the log loss


@dataclass(frozen=True)
class ScoreRows:
    """The n labelled rows of a scorer.

    scores     (n,) any finite numbers, higher = more plausible
    positive   (n,) 1 = true, 0 = false
    weights    (n,) above 0; None: all rows have the same weight
    relations  (n,) position of the relation in `names`; None: the rows have no relations
    names      the relations
    """

    scores: Scores
    positive: npt.NDArray[np.int8]
    weights: Weights | None = None
    relations: npt.NDArray[np.int32] | None = None
    names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def labels(self) -> Labels:
        """Return the labels (n,) as numbers."""
        return self.positive.astype(np.float64)

    @property
    def positives(self) -> int:
        """Return the number of true rows."""
        return int(self.positive.sum(dtype=np.int64))

    @property
    def predicates(self) -> Ints | None:
        """Return the relations (n,) as calibrators take them."""
        return None if self.relations is None else self.relations.astype(np.int64)

    def in_order(self) -> "ScoreRows":
        """Return the rows in increasing order of score, label, weight and relation."""
        if self.weights is None and self.relations is None:
            parts = [np.sort(self.scores[self.positive == label]) for label in (0, 1)]
            scores = np.concatenate(parts)
            order = np.argsort(scores, kind="stable")  # two sorted parts are merged in O(n)
            return ScoreRows(scores[order], (order >= len(parts[0])).astype(np.int8), names=self.names)
        keys = [self.relations, self.weights, self.positive, self.scores]
        return self.part(np.lexsort([key for key in keys if key is not None]))

    def part(self, rows: Ints | Bools) -> "ScoreRows":
        """Return some rows: their positions, or a mask (n,)."""
        weights = None if self.weights is None else self.weights[rows]
        relations = None if self.relations is None else self.relations[rows]
        return ScoreRows(self.scores[rows], self.positive[rows], weights, relations, self.names)

    def weights_at(self, base_rate: float | None) -> Weights:
        """Return positive weights (n,) with which the share of true rows is the base rate.

        A row's own weight is multiplied by W- / W+ if the row is true, and by 1 / alpha - 1 if it is false, where W+
        and W- are the sums of the own weights of true and of false rows, and alpha is the base rate. So the ratio of
        the weights of two rows with one label does not change. Without a base rate: the own weights, or ones.

        Raises InputError for a base rate outside (0, 1), FitError if all rows have the same label.
        """
        own: Weights = np.ones(len(self)) if self.weights is None else self.weights
        if base_rate is None:
            return own
        if self.weights is None:
            return base_rate_weights(self.labels, base_rate)
        check_base_rate("base_rate", base_rate)
        true = self.positive == 1
        if true.all() or not true.any():
            raise FitError("all rows have the same label: weights for a base rate need true and false rows")
        weights: Weights = own * np.where(true, own[~true].sum() / own[true].sum(), 1 / base_rate - 1)
        weights /= weights.mean()
        return weights

    def base_rate(self, stated: float | None) -> float:
        """Return the stated base rate or, if there is none, the share of true rows by weight."""
        return float(np.average(self.positive, weights=self.weights)) if stated is None else stated

    def sample(self, base_rate: float | None) -> CalibrationSample:
        """Return the rows as a calibration sample, weighted to the base rate as in `weights_at`."""
        return CalibrationSample(self.scores, self.labels, self.weights_at(base_rate), self.predicates)

    def evenly_weighted(self, rng: np.random.Generator) -> "ScoreRows":
        """Return rows without weights that represent the same distribution of the scores of each label.

        A row stays with the probability w / max w, where the maximum is over the rows of its label (rejection
        sampling). Equal weights in a label leave all of its rows. Confidence limits that count rows are right for the
        result, and wrong for weighted rows.
        """
        if self.weights is None:
            return self
        most = np.array([self.weights[self.positive == label].max(initial=0.0) for label in (0, 1)])
        kept = self.part(rng.random(len(self)) * most[self.positive] < self.weights)
        return ScoreRows(kept.scores, kept.positive, None, kept.relations, kept.names)

    def named(self, names: tuple[str, ...]) -> "ScoreRows":
        """Return the rows with relations that are numbered by `names`, which has all of their names."""
        if self.relations is None or self.names == names:
            return self
        place = {name: number for number, name in enumerate(names)}
        own = np.array([place[name] for name in self.names], dtype=np.int32)
        return replace(self, relations=own[self.relations], names=names)

    @classmethod
    def joined(cls, parts: Sequence["ScoreRows"]) -> "ScoreRows":
        """Return the rows of all parts, one after the other.

        If some parts have weights, a row of a part without weights gets their mean weight. Relations are numbered again
        if the parts have different ones.

        Raises InputError if only some of the parts have relations.
        """
        with_relations = [part.relations is not None for part in parts]
        if any(with_relations) != all(with_relations):
            raise InputError("only some of the rows have relations: name the column of relations for all, or for none")
        names = tuple(sorted({name for part in parts for name in part.names}))
        parts = [part.named(names) for part in parts]
        relations = [part.relations for part in parts if part.relations is not None]
        weights = [part.weights for part in parts if part.weights is not None]
        if weights:
            mean = float(np.concatenate(weights).mean())
            weights = [np.full(len(part), mean) if part.weights is None else part.weights for part in parts]
        return cls(
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.positive for part in parts]),
            np.concatenate(weights) if weights else None,
            np.concatenate(relations) if relations else None,
            names,
        )

    def fingerprint(self) -> str:
        """Return a hash of the rows, the same for every order of the rows if they are `in_order`."""
        found = hashlib.sha256("\n".join(self.names).encode())
        for column in (self.scores, self.positive, self.weights, self.relations):
            found.update(b"|" if column is None else np.ascontiguousarray(column).data)
        return found.hexdigest()[:32]


def log_odds(probabilities: Floats) -> Scores:
    """Return the log-odds (n,) of probabilities (n,) in [0, 1], clipped to [CLIP, 1 - CLIP]."""
    q = probabilities.clip(CLIP, 1 - CLIP)
    scores: Scores = np.log(q) - np.log1p(-q)
    return scores
