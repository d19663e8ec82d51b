"""How far apart the lowest and the highest probability are: max q - min q, in [0, 1]."""

import numpy as np

from kgcore.metrics.base import Metric
from kgcore.registries import METRICS


def spread_of(draw):
    return float(np.ptp(draw.tally.q[draw.tally.weight > 0]))


METRICS.add("spread", Metric("spread of the probabilities", "sharpness", "highest", spread_of))
