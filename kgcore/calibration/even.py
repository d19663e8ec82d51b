"""Calibration samples whose negatives have equal weights in a relation, for methods that count rows."""

from dataclasses import replace

import numpy as np

from kgcore.calibration.balance import base_rate_weights
from kgcore.calibration.sample import CalibrationSample


def even_sample(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw negatives in proportion to their weights, so that those of one relation have equal weights.

    In a sample of candidates, the negatives of a relation have different weights: those of their strategy, or the
    probabilities that they are mistakes. Methods that count rows, such as conformal p-values, would take the rows as
    they are. So a negative of weight w is kept with the probability w / (largest weight in its relation), and the rows
    that are kept share the weight of all. They are then distributed like the mistakes.

    Return the sample itself if no weights differ, as in samples of labelled negatives and of corruptions by one rule.
    """
    relations = np.zeros(len(sample.labels), dtype=np.int64) if sample.predicates is None else sample.predicates
    kept, weights = np.ones(len(relations), dtype=bool), sample.weights.copy()
    negative = sample.labels == 0
    for relation in np.unique(relations[negative]).tolist():
        rows = np.flatnonzero(negative & (relations == relation))
        own = sample.weights[rows]
        if np.ptp(own) <= 1e-9 * own.max():
            continue
        drawn = rng.random(len(rows)) < own / own.max()
        kept[rows], weights[rows] = drawn, own.sum() / drawn.sum()
    if kept.all():
        return sample
    predicates = None if sample.predicates is None else relations[kept]
    return CalibrationSample(sample.scores[kept], sample.labels[kept], weights[kept], predicates)


def drawn_sample(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw negatives with replacement, in proportion to their weights, as many in each relation as it has.

    This is for a sample of all corruptions, whose weights are the probabilities of the corruptions. The result is
    distributed like a sample of drawn corruptions. The draw is systematic, in the order of
    scores: a negative that is expected n times is drawn floor(n) or ceil(n) times. If rows stand for others
    that were left out, fewer are drawn, so that no such row is expected more than once: it is one observation.

    Return the sample itself if the negatives of each relation have equal weights, as in samples of drawn corruptions.
    """
    relations = np.zeros(len(sample.labels), dtype=np.int64) if sample.predicates is None else sample.predicates
    times, weights = np.ones(len(relations), dtype=np.int64), sample.weights.copy()
    negative = sample.labels == 0
    for relation in np.unique(relations[negative]).tolist():
        rows = np.flatnonzero(negative & (relations == relation))
        rows = rows[np.argsort(sample.scores[rows], kind="stable")]
        own = sample.weights[rows]
        if np.ptp(own) > 1e-9 * own.max():
            number = len(rows)
            if sample.concentrations is not None and (many := sample.concentrations[rows] != 1).any():
                number = max(1, min(number, int(own.sum() / own[many].max())))
            expected = np.cumsum(own) * (number / own.sum())
            expected[-1] = number
            times[rows] = np.diff(np.floor(expected + rng.random() * (1 - 1e-9)), prepend=0).astype(np.int64)
            weights[rows] = own.sum() / number
    if (times == 1).all():
        return sample
    kept = np.repeat(np.arange(len(times)), times)
    predicates = None if sample.predicates is None else relations[kept]
    return CalibrationSample(sample.scores[kept], sample.labels[kept], weights[kept], predicates)


def evenly_weighted(sample: CalibrationSample, rng: np.random.Generator) -> CalibrationSample:
    """Draw rows so that those of each label have equal weights. They represent the same distribution of scores.

    A row stays with the probability w / max w, where the maximum is over the rows of its label (rejection sampling).
    Confidence limits that count rows are right for the result, and wrong for weighted rows. The base rate stays.

    Return the sample itself if the weights of each label are equal.
    """
    label = sample.labels.astype(np.int8)
    largest = np.array([sample.weights[label == either].max() for either in (0, 1)])[label]
    kept = rng.random(len(largest)) * largest < sample.weights
    if kept.all():
        return sample
    part = sample.part(kept)
    return replace(part, weights=base_rate_weights(part.labels, sample.base_rate))
