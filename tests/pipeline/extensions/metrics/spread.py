"""Spread: the distance between the lowest and the highest probability."""

from kgcore.metrics.base import Draw, Metric
from kgcore.registries import METRICS


def spread_of(draw: Draw) -> float:
    """max q - min q over the drawn triples, in [0, 1]."""
    drawn = draw.tally.q[draw.tally.weight > 0]
    return float(drawn.max() - drawn.min())


METRICS.add("spread", Metric("spread of the probabilities", "sharpness", "highest", spread_of))
