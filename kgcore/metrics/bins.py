"""Bins of probabilities. A set of bins is stored as the positions in a tally at which the bins start."""

import numpy as np

from kgcore.arrays import Ints, Probabilities
from kgcore.metrics.tally import Tally


def equal_width_bins(probabilities: Probabilities, bins: int) -> Ints:
    """Return the bin numbers (n,), from 0, of probabilities (n,).

    There are `bins` equally wide bins (lower, upper]; the first bin includes 0.
    """
    return np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)


def equal_mass_bins(t: Tally, bins: int) -> Ints:
    """Return the positions of the tally's entries at which a bin starts (m,), m <= bins; the first is 0.

    An entry is in bin floor(bins * c). c is the share of the total weight that lies below the entry, plus half of the
    share of the entry itself. Equal probabilities stay in one bin, so m can be less than `bins`. If all probabilities
    are equal, m is 1.
    """
    weight = t.weight
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return bin_starts(np.floor(bins * middle + 1e-9).astype(np.int64).clip(0, bins - 1))


def bin_starts(place: Ints) -> Ints:
    """Return the positions (m,) at which a bin starts. `place` (g,) is the bin number of each entry, non-decreasing."""
    return np.flatnonzero(np.diff(place, prepend=-1))


def binned_ece_of(t: Tally, starts: Ints) -> float:
    """Return the expected calibration error of a tally, in [0, 1]: sum_b |sum_{i in b} w_i (y_i - q_i)| / sum w.

    starts  (m,) positions of the entries at which the bins b start
    """
    return float(np.abs(np.add.reduceat(t.residual, starts)).sum() / t.weight.sum())
