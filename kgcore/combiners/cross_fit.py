"""Cross-fitting: log-odds of the sample's rows from combiners that were not fitted to them."""

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from kgcore.arrays import Floats
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.folds import sample_folds
from kgcore.errors import FitError

FOLDS = 5

Kind = TypeVar("Kind", bound=Combiner)


@dataclass(frozen=True)
class CrossFitted(Generic[Kind]):
    """A combiner that is fitted to all rows of a sample, and log-odds that are fair to these rows.

    combiner  the combiner
    log_odds  (n,) of each row, from a combiner that was fitted without the row's fold. A one-score calibrator that is
              fitted to them sees the errors that the combiner makes on new triples; on its own rows it makes fewer
    """

    combiner: Kind
    log_odds: Floats


def cross_fit(
    combiner: Kind, sample: EvidenceSample, rng: np.random.Generator, folds: int = FOLDS
) -> CrossFitted[Kind]:
    """Fit a combiner to all rows, and then with the settings which that fit chose to all rows but those of each fold.

    folds  number of folds K, at least 2. Rows of one group are in one fold

    The combiners of the folds have (K - 1) / K of the rows, so their log-odds are a little less accurate than those of
    the returned combiner, and a calibrator fitted to them is a little too cautious. Raises FitError if the rows without
    a fold have one label only.
    """
    fitted = combiner.fit(sample, rng)
    fold, log_odds = sample_folds(sample, folds, rng), np.empty(len(sample))
    for own in range(folds):
        held = fold == own
        if not held.any():
            continue
        kept = sample.part(~held)
        if len(np.unique(kept.labels)) < 2:
            raise FitError(
                f"the {len(sample):,} rows cannot be divided into {folds} folds: the rows without one fold have one "
                "label only; use more labelled rows, or fewer folds"
            )
        other = fitted.tuned().fit(kept, rng)
        log_odds[held] = other.log_odds(sample.values[held], sample.predicates[held])
    return CrossFitted(fitted, log_odds)
