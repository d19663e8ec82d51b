"""Spread: the distance between the lowest and the highest probability."""

from kgcore.measure.metrics.base import Metric, Tally
from kgcore.registries import METRICS


def spread_of(t: Tally) -> float:
    """max q - min q over the drawn triples, in [0, 1]."""
    drawn = t.q[t.weight > 0]
    return float(drawn.max() - drawn.min())


METRICS.add("spread", Metric("spread of the probabilities", "sharpness", "highest", spread_of))
