"""Sharpness: how far probabilities are from their mean, whatever the labels are."""

from kgcore.arrays import Labels, Probabilities, Weights
from kgcore.metrics.base import Metric
from kgcore.metrics.tally import Tally, tally
from kgcore.registries import METRICS


def sharpness(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Return the weighted variance of the probabilities, in [0, 1/4]. It does not depend on the labels (n,).

    Murphy & Winkler 1987; Gneiting, Balabdaoui & Raftery 2007: good probabilities are as sharp as calibration
    allows. For perfectly calibrated probabilities, sharpness equals the discrimination part of the Brier score. If it
    is higher than that part, the probabilities are overconfident. Raises InputError for values out of range.
    """
    return sharpness_of(tally(probabilities, labels, weights))


def sharpness_of(t: Tally) -> float:
    """Compute `sharpness` on a tally."""
    squares = (t.q - t.mean(t.q, t.q)) ** 2
    return t.mean(squares, squares)


METRICS.add(
    "sharpness",
    Metric("sharpness", "sharpness", "neither", lambda draw: sharpness_of(draw.tally), order=160, column=40),
)
