"""Sharpness: how far probabilities dare to leave their mean, whatever comes true."""

from kgcore.arrays import Labels, Probabilities, Weights
from kgcore.metrics.tally import Tally, tally


def sharpness(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """Weighted variance of the probabilities, in [0, 1/4]. Labels (n,) have no part in it.

    Murphy & Winkler 1987; Gneiting, Balabdaoui & Raftery 2007: to be as high as calibration allows. Of perfectly
    calibrated probabilities it is the Brier score's discrimination: where it is above that, they claim more than they
    know. Raises InputError for values out of range.
    """
    return sharpness_of(tally(probabilities, labels, weights))


def sharpness_of(t: Tally) -> float:
    """`sharpness` of a tally."""
    squares = (t.q - t.mean(t.q, t.q)) ** 2
    return t.mean(squares, squares)
