"""Cross-fitting: log-odds of the sample's rows from combiners that were not fitted to them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.stack import Stack
from kgcore.errors import FitError

FOLDS = 5


@dataclass(frozen=True)
class CrossFitted:
    """A combiner that has seen all rows of a sample, and log-odds that are fair to these rows.

    combiner  the combiner
    kind      its registered name, as in `Combined`
    log_odds  (n,) of each row, from combiners that were fitted without the row's fold. A one-score calibrator that is
              fitted to them sees the errors that the combiner makes on new triples; on its own rows it makes fewer
    """

    combiner: Combiner
    kind: str
    log_odds: Floats


def cross_fit(
    name: str,
    combiner: Combiner,
    sample: EvidenceSample,
    rng: np.random.Generator,
    folds: int = FOLDS,
    rounds: int = 1,
    used: Bools | None = None,
) -> CrossFitted:
    """Fit a combiner to all rows, and then with the settings which that fit chose to all rows but those of each fold.

    name    registered name of the combiner
    folds   number of folds K, at least 2. Rows of one group are in one fold
    rounds  number of divisions into folds R, at least 1. With one, the combiner of all rows is returned. With more, it
            is the mean of the R K combiners of the folds, which varies less from sample to sample (bagging: Breiman
            1996), and the log-odds of a row are the mean of the R combiners that have not seen it
    used    (n,) the rows that combiners are fitted to; None: all. The other rows get log-odds, too

    The combiners of the folds have (K - 1) / K of the rows. So with one round the log-odds are a little less accurate
    than those of the returned combiner, and a calibrator fitted to them is a little too cautious; with more rounds,
    they are the mean of fewer combiners, with the same effect. Raises FitError if the rows without a fold have one
    label only.
    """
    used = np.ones(len(sample), dtype=bool) if used is None else used
    fitted, log_odds = combiner.fit(sample if used.all() else sample.part(used), rng), np.zeros(len(sample))
    members = []
    for _ in range(rounds):
        for held, member in _of_folds(fitted, sample, rng, folds, used):
            log_odds[held] += member.log_odds(sample.values[held], sample.predicates[held]) / rounds
            members.append(member)
    if rounds == 1:
        return CrossFitted(fitted, name, log_odds)
    return CrossFitted(Stack.mean(name, members), "stack", log_odds)


def _of_folds(
    fitted: Combiner, sample: EvidenceSample, rng: np.random.Generator, folds: int, used: Bools
) -> Iterator[tuple[Ints, Combiner]]:
    """Yield the rows of each fold, and the combiner that is fitted to all others that are used."""
    fold = sample.folds(folds, rng)
    for own in np.unique(fold):
        kept = sample.part((fold != own) & used)
        if len(np.unique(kept.labels)) < 2:
            raise FitError(
                f"the {len(sample):,} rows cannot be divided into {folds} folds: the rows without one fold have one "
                "label only; use more labelled rows, or fewer folds"
            )
        yield np.flatnonzero(fold == own), fitted.tuned().fit(kept, rng)
