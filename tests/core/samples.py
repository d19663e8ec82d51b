"""Probabilities with labels for the tests of metrics: arbitrary ones, and some whose truth is known."""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st
from scipy.special import expit, logit

from kgcore.measure.metrics import base
from kgcore.registries import METRICS

Sample = tuple[np.ndarray, np.ndarray, np.ndarray]


def _arrays(rows: list[tuple[float, int, float]]) -> Sample:
    q, y, w = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return q, y, w


probability = st.floats(0, 1) | st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0])  # few values, so that ties are likely
samples = st.lists(st.tuples(probability, st.integers(0, 1), st.floats(0.1, 5)), min_size=1, max_size=50).map(_arrays)
copies = st.lists(st.tuples(probability, st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=30).map(_arrays)
both_labels = samples.filter(lambda sample: 0 < sample[1].mean() < 1)

DISTORTIONS = {
    "overconfident": lambda q: expit(2 * logit(q)),
    "vague": lambda q: expit(0.5 * logit(q)),
    "too high": lambda q: expit(logit(q) + 0.7),
    "too low": lambda q: expit(logit(q) - 0.7),
    "a constant": lambda q: np.full(len(q), 0.3),
}


def calibrated(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw probabilities (n,), and labels that are true with exactly these probabilities."""
    q = expit(1.5 * rng.normal(size=n))
    return q, (rng.random(n) < q).astype(float)


def pair_weights(y: np.ndarray, base_rate: float) -> np.ndarray:
    """Return weights that make the share of true triples equal to the base rate, as for synthetic negatives."""
    return np.where(y == 1, base_rate / y.mean(), (1 - base_rate) / (1 - y.mean()))


def tally_of(q: np.ndarray, y: np.ndarray, w: np.ndarray | None = None, bins: int = 10) -> base.Tally:
    """Return the tally in which every row occurs once."""
    return base.Sample(q, y, w, bins).tally()


def figure(name: str) -> Callable[..., float]:
    """Return the registered metric as a function of probabilities, labels, weights and the number of bins."""
    return lambda *sample, bins=10: METRICS.get(name).figure(tally_of(*sample, bins=bins))
