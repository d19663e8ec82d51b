"""The audit of a calibration sample: how much the scores of its two labels overlap, and its effective sample size."""

from collections.abc import Mapping

import numpy as np

from kgcore.calibration.calibrated import Calibrated
from kgcore.calibration.sample import CalibrationSample


def score_audit(sample: CalibrationSample, soft: bool = False) -> dict[str, float]:
    """Return the overlap and the effective size of a sample, by name.

    soft  whether the labels are soft (`soft_sample`). Then every row is a positive and a negative, and the overlap is
          weighted

    overlap                P(f(t-) > f(t+)) + P(f(t-) = f(t+)) / 2 = 1 - AUROC, in [0, 1], for the score f of a random
                           negative t- and a random positive t+. Rows count by their `counts`, not by their weights.
                           0: the model scores every positive above every negative. 0.5: the model cannot separate
                           them. If synthetic negatives overlap with the positives far less than labelled negatives do,
                           then synthetic negatives are easier than real mistakes, and the probabilities fitted on them
                           are too confident.
    effective_sample_size  (sum w)^2 / sum w^2 (Kish 1965): the number of equally weighted rows that would carry the
                           same information
    """
    overlap, weights = _weighted_overlap(sample) if soft else _overlap(sample), sample.weights
    return {"overlap": overlap, "effective_sample_size": float(weights.sum() ** 2 / (weights**2).sum())}


def _overlap(sample: CalibrationSample) -> float:
    """Return the overlap of `score_audit`."""
    is_positive = sample.labels == 1
    positives, negatives = np.sort(sample.scores[is_positive]), sample.scores[~is_positive]
    below, up_to = (np.searchsorted(positives, negatives, side) for side in ("left", "right"))
    counts = None if sample.counts is None else sample.counts[~is_positive]
    return float(np.average(below + (up_to - below) / 2, weights=counts) / len(positives))


def _weighted_overlap(sample: CalibrationSample) -> float:
    """Return the overlap of `score_audit`, where positives and negatives are drawn in proportion to their weights."""
    _, place = np.unique(sample.scores, return_inverse=True)
    positive, negative = (np.bincount(place, np.where(sample.labels == label, sample.weights, 0.0)) for label in (1, 0))
    below = np.cumsum(positive) - positive / 2
    return float(negative @ below / (positive.sum() * negative.sum()))


HIGH = 0.75  # a probability above it counts as high
MOST_THIN = 0.5  # if a larger share of the high probabilities of positives is thin, a report has a note
POSITIVES, THIN, NEGATIVES = "high_positives", "thin_positives", "high_negatives"


def thin_figures(bound: Calibrated, sample: CalibrationSample) -> dict[str, float]:
    """Return the numbers of rows of a calibration sample that have a high probability, by name.

    bound   a calibrator, at its own base rate, which may be another than that of the sample
    sample  the sample that it was fitted on

    POSITIVES  positives among them
    THIN       those of these positives whose 95 % confidence interval reaches to 1/2 or below
    NEGATIVES  negatives among them; if rows have counts, the sum of these

    The names end with the name of the calibrator.
    """
    predicates = sample.predicates
    q = bound.predict(sample.scores, bound.model, predicates)
    true, false = ((q > HIGH) & (sample.labels == label) for label in (1, 0))
    low, _ = bound.interval(sample.scores[true], q[true], None if predicates is None else predicates[true])
    negatives = int(false.sum()) if sample.counts is None else round(float(sample.counts[false].sum()))
    numbers = {POSITIVES: int(true.sum()), THIN: int(np.sum(low <= 0.5)), NEGATIVES: negatives}
    return {f"{key}.{bound.name}": float(number) for key, number in numbers.items()}


def thin_notes(audits: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a note about the calibrators whose sample is too small for high probabilities, if there are any.

    audits  kind of negatives -> the results of `thin_figures` of the calibrators on them; other keys are ignored

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
