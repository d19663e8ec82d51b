"""The validation triples that a search measures by, and their cross-fitted probabilities."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Labels, Probabilities, Scores, Triples, Weights
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.sample import CalibrationSample, base_rate_weights, ground_truth_sample, synthetic_sample
from kgcore.config import CorruptConfig
from kgcore.corruptions.base import corrupt
from kgcore.corruptions.mixture import Mixture
from kgcore.corruptions.sides import subject_shares
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph


@dataclass(frozen=True)
class HeldOut:
    """Validation triples (n, 3), their labels (n,), and which of the two halves each is in (n,).

    base_rate  share of positives, by weight, where corruptions stand for negatives; None where negatives are labelled
    """

    triples: Triples
    labels: Labels
    second: Bools
    base_rate: float | None

    @property
    def weights(self) -> Weights:
        """(n,): ones where negatives are labelled, else such that positives are the base rate."""
        return np.ones(len(self.labels)) if self.base_rate is None else base_rate_weights(self.labels, self.base_rate)

    def cross_fitted(self, scores: Scores) -> Probabilities:
        """Scores (n,) -> probabilities (n,): of each half by an isotonic calibrator that was fitted on the other."""
        q = np.empty(len(scores))
        for measured in (self.second, ~self.second):
            q[measured] = Isotonic.fit(self._sample(scores, ~measured)).predict(scores[measured])
        return q

    def _sample(self, scores: Scores, rows: Bools) -> CalibrationSample:
        scores, labels = scores[rows], self.labels[rows]
        if self.base_rate is None:
            return ground_truth_sample(scores, labels)
        return synthetic_sample(scores[labels == 1], scores[labels == 0], self.base_rate)


def held_out(graph: KnowledgeGraph, config: CorruptConfig, base_rate: float, rng: np.random.Generator) -> HeldOut:
    """The labelled validation triples; where no negative is labelled the positives and their corruptions, which are in
    the half of the positive they were made from.

    config     the corruptions; they are drawn by its own seed
    base_rate  of positives among positives and corruptions, above 0 and below 1; labelled negatives have their own
    rng        draws the halves

    Raises InputError for a graph with a test split, for too few triples, and for corruptions that are drawn by a model:
    those of one trial would not be those of another.
    """
    if len(graph.test):
        raise InputError(f"a search must not see the test split, and {graph.name} is given with one: leave it out")
    positives, labelled = graph.valid.positives, graph.valid
    if len(labelled.negatives):
        _enough(min(len(positives), len(labelled.negatives)))
        return HeldOut(labelled.triples, labelled.labels, halves(labelled.labels, rng), None)
    _enough(len(positives))
    strategy = Mixture(graph, config.calibration_strategy)
    if strategy.by_model:
        raise InputError(
            f"a search needs corruptions that no model draws: {', '.join(config.calibration_strategy)} are not"
        )
    drawn_by, shares = np.random.default_rng(config.calibration_seed), subject_shares(graph, config.calibration_sides)
    known = graph.known if config.calibration_filtered else None
    made = corrupt(positives, config.calibration_eta, strategy, drawn_by, shares, known)
    second = halves(np.ones(len(positives)), rng)
    return HeldOut(
        np.concatenate([positives, made.triples]),
        np.r_[np.ones(len(positives)), np.zeros(len(made.triples))],
        np.r_[second, second[made.source]],
        base_rate,
    )


def halves(labels: Labels, rng: np.random.Generator) -> Bools:
    """Labels (n,) -> whether each row is in the second half (n,): of the rows of a label one half, by chance."""
    second = np.zeros(len(labels), dtype=bool)
    for label in (0, 1):
        rows = rng.permutation(np.flatnonzero(labels == label))
        second[rows[len(rows) // 2 :]] = True
    return second


def _enough(count: int) -> None:
    if count < 2:
        raise InputError(f"validation has {count} triples of a kind: a search needs at least 2, for its two halves")
