"""Find calibration samples that are too small for high probabilities.

A high probability is *thin* if its confidence interval reaches to 1/2 or below.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.calibration.calibrated import Calibrated
from kgcore.calibration.sample import CalibrationSample

HIGH = 0.75  # a probability above it counts as high
MOST_THIN = 0.5  # if a larger share of the high probabilities of positives is thin, a report has a note
POSITIVES, THIN, NEGATIVES = "high_positives", "thin_positives", "high_negatives"


@dataclass(frozen=True)
class Thinness:
    """The numbers of rows of a calibration sample that have a high probability.

    positives  positives among them
    thin       those of these positives whose 95 % confidence interval reaches to 1/2 or below
    negatives  negatives among them; if rows have counts, the sum of these
    """

    positives: int
    thin: int
    negatives: int

    @classmethod
    def of(cls, bound: Calibrated, sample: CalibrationSample) -> Self:
        """Count the rows.

        bound   a calibrator, at its own base rate, which may be another than that of the sample
        sample  the sample that it was fitted on
        """
        predicates = sample.predicates
        q = bound.predict(sample.scores, bound.model, predicates)
        high = q > HIGH
        rows = high & (sample.labels == 1)
        own = None if predicates is None else predicates[rows]
        low, _ = bound.interval(sample.scores[rows], q[rows], own)
        false = high & (sample.labels == 0)
        negatives = int(false.sum()) if sample.counts is None else round(float(sample.counts[false].sum()))
        return cls(int(rows.sum()), int(np.sum(low <= 0.5)), negatives)

    def figures(self, name: str) -> dict[str, float]:
        """Return the numbers under keys that end with the name of the calibrator."""
        numbers = {POSITIVES: self.positives, THIN: self.thin, NEGATIVES: self.negatives}
        return {f"{key}.{name}": float(number) for key, number in numbers.items()}


def thin_notes(audits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a note about the calibrators whose sample is too small for high probabilities, if there are any.

    audits  kind of negatives -> the results of `Thinness.figures` of the calibrators on them; other keys are ignored

    A sample is too small if more than half of the validation positives with a high probability are thin. The number of
    negatives with a high probability does not decide it: if a model separates well, even a large sample has hardly any
    of them.
    """
    thin = []
    for negatives, figures in sorted(audits.items()):
        for name in (key.removeprefix(f"{POSITIVES}.") for key in figures if key.startswith(f"{POSITIVES}.")):
            positives, reach, false = (int(figures[f"{key}.{name}"]) for key in (POSITIVES, THIN, NEGATIVES))
            if reach > MOST_THIN * positives:
                thin.append(f"{negatives}.{name} ({reach:,} of {positives:,}; {false:,} negatives)")
    if not thin:
        return []
    return [
        f"The calibration sample is too small for probabilities above {HIGH:g} at this base rate. Most validation "
        "positives with such a probability have a 95 % confidence interval that reaches below 0.5: "
        f"{', '.join(thin)}. Read the intervals of the predictions, or add validation triples."
    ]
