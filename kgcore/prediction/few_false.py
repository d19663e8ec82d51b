"""Marks candidates so that the expected share of false ones among the marked is at most a chosen level.

The false candidates are compared with the negatives of the calibration: labelled ones, or corruptions.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa

from kgcore.arrays import Floats, Scores
from kgcore.calibration.sample import CalibrationSample
from kgcore.conformal import benjamini_hochberg_limit, conformal_p_values
from kgcore.prediction.answers import Answers

FEWEST_NEGATIVES = 100  # the candidates of a predicate with fewer negatives have no p-values
P_VALUE, SELECTED = "p_value", "selected"


@dataclass(frozen=True)
class Negatives:
    """The negatives of a calibration sample.

    scores  predicate -> scores of its negatives
    """

    scores: Mapping[int, Scores]

    @classmethod
    def of(cls, sample: CalibrationSample) -> Self:
        """Take the negatives of a sample with predicates. All of one predicate count the same: see `even_sample`."""
        assert sample.predicates is not None
        negative = sample.labels == 0
        predicates, scores = sample.predicates[negative], sample.scores[negative]
        return cls({p: scores[predicates == p] for p in np.unique(predicates).tolist()})

    def p_values(self, answers: Answers, table: pa.Table) -> Floats:
        """Return the conformal p-value (n,) of each answered triple: see `conformal_p_values`.

        table  a table of answers of n triples

        A triple is compared with the negatives of its own predicate. Its p-value is NaN in three cases: it has no
        score, its predicate has fewer than FEWEST_NEGATIVES negatives, or it is a fact of train or valid. The model or
        the calibrator was fitted to such a fact.
        """
        triples, named = answers.numbers(table)
        scores = table["score"].to_numpy()
        asked = named & ~answers.model.graph.known.contains(triples.clip(min=0))
        p: Floats = np.full(len(triples), np.nan)
        for predicate in np.unique(triples[asked, 1]).tolist():
            negatives, rows = self.scores.get(predicate, np.zeros(0)), asked & (triples[:, 1] == predicate)
            if len(negatives) >= FEWEST_NEGATIVES:
                p[rows] = conformal_p_values(scores[rows], negatives)
        return p


@dataclass
class Selection:
    """The selection among candidates that arrive in tables.

    counts  p-value -> number of candidates. There are at most as many different p-values as negatives
    """

    negatives: Negatives
    answers: Answers
    counts: Counter[float] = field(default_factory=Counter)

    def add(self, table: pa.Table) -> pa.Table:
        """Count the p-values of a table of answers. Return the table with the column p_value."""
        p = self.negatives.p_values(self.answers, table)
        values, numbers = np.unique(p[~np.isnan(p)], return_counts=True)
        self.counts.update(dict(zip(values.tolist(), numbers.tolist(), strict=True)))
        return table.append_column(P_VALUE, pa.array(p, mask=np.isnan(p)))

    def limit(self, level: float) -> float:
        """Return the largest p-value of the selected candidates, after all tables: see `benjamini_hochberg_limit`."""
        values = np.array(sorted(self.counts), dtype=np.float64)
        return benjamini_hochberg_limit(values, np.array([self.counts[value] for value in values]), level)


def mark(table: pa.Table, limit: float) -> pa.Table:
    """Add the column `selected` to a table of `Selection.add`. A row without a p-value has no value there."""
    p = table[P_VALUE].to_numpy()
    return table.append_column(SELECTED, pa.array(p <= limit, mask=np.isnan(p)))
