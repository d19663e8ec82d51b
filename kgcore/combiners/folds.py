"""Folds of a sample of evidence."""

import numpy as np

from kgcore.arrays import Ints
from kgcore.combiners.base import EvidenceSample
from kgcore.folds import draw_folds


def sample_folds(sample: EvidenceSample, folds: int, rng: np.random.Generator) -> Ints:
    """Return the fold (n,) of each row of a sample, whose groups stay together: see `draw_folds`."""
    groups = np.arange(len(sample)) if sample.groups is None else sample.groups
    return draw_folds(groups, sample.labels, folds, rng)
