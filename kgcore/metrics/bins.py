"""Bins of probabilities, as the positions in a tally at which each bin starts."""

import numpy as np

from kgcore.arrays import Ints, Probabilities
from kgcore.metrics.tally import Tally


def equal_width_bins(probabilities: Probabilities, bins: int) -> Ints:
    """Bin numbers (n,) of probabilities (n,), for `bins` equally wide bins (lower, upper]; the first bin includes 0."""
    return np.clip(np.ceil(probabilities * bins).astype(np.int64) - 1, 0, bins - 1)


def equal_mass_bins(t: Tally, bins: int) -> Ints:
    """The entries of the tally at which a bin starts (m,), m <= bins; the first is 0.

    An entry is in bin floor(bins * c), where c is the share of the weight below the entry's middle. Equal probabilities
    stay in one bin, so there are fewer bins where many are equal: one for a constant.
    """
    weight = t.weight
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return bin_starts(np.floor(bins * middle + 1e-9).astype(np.int64).clip(0, bins - 1))


def bin_starts(place: Ints) -> Ints:
    """The positions (m,) at which the bins start, given each entry's bin number (g,), non-decreasing."""
    return np.flatnonzero(np.diff(place, prepend=-1))


def binned_ece_of(t: Tally, starts: Ints) -> float:
    """Expected calibration error of a tally over the bins that start at these entries (m,), in [0, 1]:
    sum_b |sum_{i in b} w_i (y_i - q_i)| / sum w."""
    return float(np.abs(np.add.reduceat(t.residual, starts)).sum() / t.weight.sum())
