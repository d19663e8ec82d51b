"""What a calibration sample is too small for: high probabilities whose confidence interval reaches below 1/2."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.sample import CalibrationSample

HIGH = 0.75  # a probability above it counts as high
MOST_THIN = 0.5  # largest share of the high probabilities that may be thin without a note
POSITIVES, THIN, NEGATIVES = "high_positives", "thin_positives", "high_negatives"


@dataclass(frozen=True)
class Thinness:
    """The rows of a calibration sample that have a high probability.

    positives  number of positives among them
    thin       number of these positives whose 95 % confidence interval reaches to 1/2 or below
    negatives  number of negatives among them
    """

    positives: int
    thin: int
    negatives: int

    @classmethod
    def of(cls, bound: BoundCalibrator, sample: CalibrationSample) -> Self:
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
        return cls(int(rows.sum()), int(np.sum(low <= 0.5)), int((high & (sample.labels == 0)).sum()))

    def figures(self, name: str) -> dict[str, float]:
        """Return the numbers under keys that end with the name of the calibrator."""
        numbers = {POSITIVES: self.positives, THIN: self.thin, NEGATIVES: self.negatives}
        return {f"{key}.{name}": float(number) for key, number in numbers.items()}


def thin_notes(audits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return one sentence about the calibrators whose high probabilities have too little support; none if all have.

    audits  kind of negatives -> the results of `Thinness.figures` of the calibrators on them; other keys are ignored

    A calibrator has too little support if more than half of the validation positives with a high probability have an
    interval that reaches to 1/2 or below. The number of negatives with a high probability alone does not tell: where a
    model separates well, a large sample with hardly any negative up there is strong support.
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
        f"Too few triples support probabilities above {HIGH:g} at this base rate: of the validation positives with "
        f"such a probability, most have a 95 % confidence interval that reaches below 0.5: {', '.join(thin)}. Read the "
        "intervals of the predictions, or add validation triples."
    ]
