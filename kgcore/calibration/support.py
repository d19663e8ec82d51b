"""The evidence behind the probabilities of a calibrator: confidence limits, and the calibration rows per predicate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from kgcore.arrays import Ints, Probabilities, Scores
from kgcore.calibration.balance import label_sizes
from kgcore.calibration.band import Band
from kgcore.calibration.sample import CalibrationSample

MOST_POINTS_OF_A_RELATION = 64


@dataclass(frozen=True)
class Support:
    """What a calibration sample says about the uncertainty of its calibrator.

    band       confidence limits over all rows
    relations  predicate -> confidence limits over its rows, for a calibrator with a map for each predicate; else empty
    rows       predicate -> its numbers of positives and of negatives, effective ones if rows have counts; empty if the
               sample has no predicates
    """

    band: Band
    relations: Mapping[int, Band]
    rows: Mapping[int, tuple[int, int]]

    @classmethod
    def fit(cls, sample: CalibrationSample, by_predicate: bool) -> Self:
        """Compute the support from a sample.

        by_predicate  whether the calibrator has a map for each predicate. A predicate whose rows have one label only
                      gets no limits.
        """
        rows = rows_of(sample)
        present = [predicate for predicate, sizes in rows.items() if by_predicate and min(sizes) > 0]
        relations = {}
        for predicate in present:
            own = sample.part(sample.predicates == predicate)  # type: ignore[arg-type]
            relations[predicate] = Band.fit(own, most_points=MOST_POINTS_OF_A_RELATION)
        return cls(Band.fit(sample), relations, rows)

    def widened(self, low: Self, high: Self) -> Self:
        """Return the support with the lower limits of `low` and the upper limits of `high`.

        low, high  of the same rows with other weights
        """
        relations = {
            predicate: Band(band.scores, low.relations[predicate].low, high.relations[predicate].high)
            for predicate, band in self.relations.items()
        }
        return replace(self, band=Band(self.band.scores, low.band.low, high.band.high), relations=relations)

    def limits(self, scores: Scores, predicates: Ints | None) -> tuple[Probabilities, Probabilities]:
        """Return the lower and the upper confidence limit (n,) of the share of true triples, at the sample's base rate.

        scores, predicates  (n,) of the triples. A calibrator with a map for each predicate uses the limits of the
                            predicate; they are 0 and 1 for a predicate without limits.
        """
        if not self.relations or predicates is None:
            return self.band.limits(scores)
        low, high = np.zeros(len(scores)), np.ones(len(scores))
        for predicate in np.unique(predicates).tolist():
            own = predicates == predicate
            if predicate in self.relations:
                low[own], high[own] = self.relations[predicate].limits(scores[own])
        return low, high

    def fewest(self, predicates: Ints) -> Ints:
        """Return for each triple (n,) the calibration rows of its predicate: the smaller of positives and negatives.

        predicates  (n,) of the triples
        """
        size = 1 + max([0, *self.rows, int(predicates.max(initial=0))])
        counts = np.zeros(size, dtype=np.int64)
        for predicate, both in self.rows.items():
            counts[predicate] = min(both)
        return counts[predicates]

    def to_json(self) -> dict[str, Any]:
        """Return the support as plain JSON."""
        return {
            "band": self.band.to_json(),
            "relations": {str(predicate): band.to_json() for predicate, band in self.relations.items()},
            "rows": {str(predicate): list(both) for predicate, both in self.rows.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read the support that `to_json` wrote."""
        relations = {int(predicate): Band.from_json(band) for predicate, band in data["relations"].items()}
        rows = {int(predicate): (int(both[0]), int(both[1])) for predicate, both in data["rows"].items()}
        return cls(Band.from_json(data["band"]), relations, rows)


def rows_of(sample: CalibrationSample) -> dict[int, tuple[int, int]]:
    """Return the `rows` of `Support` of a sample."""
    rows, counts = {}, sample.counts
    for predicate in () if sample.predicates is None else np.unique(sample.predicates).tolist():
        own = sample.predicates == predicate
        negatives, positives = label_sizes(sample.labels[own], None if counts is None else counts[own])
        # a predicate with a row has at least one effective row
        rows[predicate] = (round(positives), max(round(negatives), int(negatives > 0)))
    return rows
