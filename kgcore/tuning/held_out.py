"""The validation triples that measure the trials of a search, and their cross-fitted probabilities."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Labels, Probabilities, Scores, Triples, Weights
from kgcore.calibration.balance import base_rate_weights, both_labels
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample, soft_sample, synthetic_sample
from kgcore.config import CorruptConfig
from kgcore.corruptions.base import corrupt, subject_shares
from kgcore.corruptions.mixture import Mixture
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph


@dataclass(frozen=True)
class HeldOut:
    """Validation triples in two halves. One half fits a calibrator, and the other half measures it.

    triples    (n, 3) the positives and the negatives
    labels     (n,) 1 for a positive, 0 for a negative: a labelled negative, or a corruption if none are labelled
    second     (n,) True if a triple is in the second half
    base_rate  weighted share of positives, in (0, 1), if the negatives are corruptions; None if they are labelled
    confidences  (n,) confidences of the triples, in [0, 1]; None: the labels say what is true
    """

    triples: Triples
    labels: Labels
    second: Bools
    base_rate: float | None
    confidences: Probabilities | None = None

    @property
    def truth(self) -> Probabilities:
        """The confidences (n,) of the triples, or their labels: what the probabilities are measured by."""
        return self.labels if self.confidences is None else self.confidences

    @property
    def weights(self) -> Weights:
        """Return the weights (n,) of the triples.

        They are 1 if the negatives are labelled. Otherwise they make the weighted share of positives the base rate, in
        each relation.
        """
        if self.base_rate is None:
            return np.ones(len(self.labels))
        return base_rate_weights(self.labels, self.base_rate, self.triples[:, 1])

    def cross_fitted(self, scores: Scores) -> Probabilities:
        """Convert scores (n,) to probabilities (n,): an isotonic calibrator, fitted on one half, predicts the other."""
        q = np.empty(len(scores))
        for measured in (self.second, ~self.second):
            q[measured] = Isotonic().fit_sample(self._sample(scores, ~measured)).calibrate(scores[measured])
        return q

    def _sample(self, scores: Scores, rows: Bools) -> CalibrationSample:
        if self.confidences is not None:
            return soft_sample(scores[rows], self.confidences[rows])
        scores, labels, predicates = scores[rows], self.labels[rows], self.triples[rows, 1]
        if self.base_rate is None:
            return ground_truth_sample(scores, labels)
        both = (predicates[labels == 1], predicates[labels == 0])
        return synthetic_sample(scores[labels == 1], scores[labels == 0], self.base_rate, predicates=both)


def held_out(graph: KnowledgeGraph, config: CorruptConfig, base_rate: float, rng: np.random.Generator) -> HeldOut:
    """Split the labelled validation triples into two random halves.

    Triples with confidences are measured against these. If the graph has no labelled negatives, corruptions of the
    positives are the negatives. A corruption is in the same half as its positive. Positives of a relation without
    corruptions are left out.

    config     settings and seed of the corruptions
    base_rate  share of positives among positives and corruptions, in (0, 1); not used if negatives are labelled
    rng        random generator of the halves

    Raises InputError if the graph has a test split, if a label has fewer than two triples, or if a strategy draws
    corruptions with a model, because such corruptions differ between trials.
    """
    if len(graph.test):
        raise InputError(f"the graph {graph.name} has a test split: a search needs a graph without one")
    positives, labelled = graph.valid.positives, graph.valid
    if labelled.confidences is not None:
        _enough(len(positives))
        return HeldOut(labelled.triples, labelled.labels, halves(labelled.labels, rng), None, labelled.confidences)
    if len(labelled.negatives):
        _enough(min(len(positives), len(labelled.negatives)))
        return HeldOut(labelled.triples, labelled.labels, halves(labelled.labels, rng), None)
    _enough(len(positives))
    strategy = Mixture(graph, config.calibration_strategy)
    if strategy.by_model:
        names = ", ".join(config.calibration_strategy)
        raise InputError(f"calibration_strategy is {names}: a search needs strategies that draw without a model")
    corruption_rng, shares = (
        np.random.default_rng(config.calibration_seed),
        subject_shares(graph, config.calibration_sides),
    )
    known = graph.known if config.calibration_filtered else None
    made = corrupt(positives, config.eta(len(positives)), strategy, corruption_rng, shares, known)
    second = halves(np.ones(len(positives)), rng)
    triples = np.concatenate([positives, made.triples])
    labels = np.r_[np.ones(len(positives)), np.zeros(len(made.triples))]
    used = both_labels(labels, triples[:, 1])
    return HeldOut(triples[used], labels[used], np.r_[second, second[made.source]][used], base_rate)


def halves(labels: Labels, rng: np.random.Generator) -> Bools:
    """Choose a random half of the rows of each label. Return the mask (n,) of the second half for the labels (n,)."""
    second = np.zeros(len(labels), dtype=bool)
    for label in (0, 1):
        rows = rng.permutation(np.flatnonzero(labels == label))
        second[rows[len(rows) // 2 :]] = True
    return second


def _enough(count: int) -> None:
    if count < 2:
        raise InputError(
            f"the validation split has {count} triples of one label: a search needs at least 2 of each label"
        )
