"""Sharpness: how far probabilities are from their mean, whatever the labels are."""

from kgcore.metrics.base import Metric
from kgcore.metrics.tally import Tally
from kgcore.registries import METRICS


def sharpness_of(t: Tally) -> float:
    """Return the weighted variance of the probabilities, in [0, 1/4]. It does not depend on the labels.

    Murphy & Winkler 1987; Gneiting, Balabdaoui & Raftery 2007: good probabilities are as sharp as calibration
    allows. For perfectly calibrated probabilities, sharpness equals the discrimination part of the Brier score. If it
    is higher than that part, the probabilities are overconfident.
    """
    squares = (t.q - t.mean(t.q, t.q)) ** 2
    return t.mean(squares, squares)


METRICS.add(
    "sharpness",
    Metric("sharpness", "sharpness", "neither", lambda draw: sharpness_of(draw.tally), order=160, column=40),
)
