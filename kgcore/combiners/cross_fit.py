"""Cross-fitting: log-odds of rows by combiners that have not seen them."""

from collections.abc import Callable

import numpy as np

from kgcore.arrays import Floats
from kgcore.combiners.base import Combiner, EvidenceSample


def cross_fit(
    make: Callable[[], Combiner], sample: EvidenceSample, folds: int, rng: np.random.Generator
) -> tuple[Combiner, Floats]:
    part = rng.permutation(np.arange(len(sample)) % folds)
    z = np.empty(len(sample))
    for fold in range(folds):
        own = part == fold
        z[own] = make().fit(sample.part(~own), rng).log_odds(sample.values[own], sample.predicates[own])
    return make().fit(sample, rng), z
