"""Sharpness: how far probabilities are from their mean, whatever the labels are."""

from kgcore.arrays import Labels, Probabilities, Weights
from kgcore.metrics.base import Metric
from kgcore.metrics.tally import Tally, tally
from kgcore.registries import METRICS


def sharpness(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Weighted variance of the probabilities, in [0, 1/4]. It does not depend on the labels (n,).

    Murphy & Winkler 1987; Gneiting, Balabdaoui & Raftery 2007: the aim is to maximise it subject to calibration. For
    perfectly calibrated probabilities it equals the discrimination part of the Brier score; a higher sharpness is
    overconfidence. Raises InputError for values out of range.
    """
    return sharpness_of(tally(probabilities, labels, weights))


def sharpness_of(t: Tally) -> float:
    """`sharpness` of a tally."""
    squares = (t.q - t.mean(t.q, t.q)) ** 2
    return t.mean(squares, squares)


METRICS.add(
    "sharpness",
    Metric("sharpness", "sharpness", "neither", lambda draw: sharpness_of(draw.tally), order=160, column=40),
)
