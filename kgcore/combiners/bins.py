"""Bins of features: gradient boosting sees the number of the bin, and thresholds are the ends of bins."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats

MOST = 255  # bins of a feature: as many as scikit-learn has


@dataclass(frozen=True)
class Bins:
    """The bins of d features. Bin k has the values v with ends[k - 1] < v <= ends[k].

    scikit-learn finds such bins in each fit. With weights of rows this takes most of the time of a fit, so it gets the
    numbers of bins that are found here, once for all fits and without weights.

    ends  for each feature, its ascending ends of bins, at most MOST - 1
    """

    ends: tuple[Floats, ...]

    @classmethod
    def of(cls, values: npt.NDArray[np.float32]) -> Self:
        """Find the bins of features (n, d): one for each distinct value, or quantiles if these are more than MOST."""
        return cls(tuple(_ends(column) for column in values.T.astype(np.float64)))

    def codes(self, values: npt.NDArray[np.float32]) -> Floats:
        """Return the number of the bin of each value (n, d); NaN stays NaN, and is 0 in a column of NaN alone."""
        found = np.empty(values.shape)
        for place, (ends, column) in enumerate(zip(self.ends, values.T.astype(np.float64), strict=True)):
            known = ~np.isnan(column)
            codes = np.searchsorted(ends, column, side="left")
            found[:, place] = np.where(known, codes, np.nan if known.any() else 0.0)
        return found

    def threshold(self, feature: int, code: float) -> float:
        """Return the largest value of a feature whose bin number is at most `code`; infinity: no value is above."""
        ends = self.ends[feature]
        return float(ends[int(code)]) if code < len(ends) else np.inf


def _ends(column: Floats) -> Floats:
    """Return the ends of the bins of a feature (n,)."""
    values = np.unique(column[~np.isnan(column)])
    if len(values) <= MOST:
        middles: Floats = (values[:-1] + values[1:]) / 2
        return middles
    shares = np.linspace(0, 100, MOST + 1)[1:-1]
    return np.unique(np.percentile(column[~np.isnan(column)], shares, method="averaged_inverted_cdf"))
