"""Smooth ECE: the calibration error with a kernel in place of bins; the data determine the kernel's width."""

from collections.abc import Callable

import numpy as np

from kgcore.arrays import Floats, Labels, Probabilities, Weights
from kgcore.metrics.base import Metric
from kgcore.metrics.tally import Tally, tally
from kgcore.registries import METRICS

CELLS = 2048  # cells of the grid on [0, 1]: narrow compared with the kernel for samples of up to a million triples
TOLERANCE = 1e-7


def smooth_ece(probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> float:
    """The sigma at which smECE_sigma = sigma, in [0, 1]. Błasiok & Nakkiran, ICLR 2024, "Smooth ECE: Principled
    Reliability Diagrams via Kernel Smoothing", definitions 2 to 4.

    smECE_sigma = integral over t in [0, 1] of |sum_i w_i (y_i - q_i) K_sigma(t, q_i)| / sum_i w_i

    K_sigma is the Gaussian density with standard deviation sigma about q_i; its mass beyond 0 and 1 is reflected back.
    smECE_sigma falls as sigma grows, so there is one such sigma. Unlike errors over bins, smooth ECE has no setting,
    does not jump when probabilities change a little, and is near 0 exactly if the distance to perfect calibration is.
    Raises InputError for values out of range.
    """
    return smooth_ece_of(tally(probabilities, labels, weights))


def smooth_ece_of(t: Tally) -> float:
    """`smooth_ece` of a tally."""
    return _fixed_point(smoothed_error(t))


def smoothed_error(t: Tally) -> Callable[[float], float]:
    """sigma -> smECE_sigma of a tally.

    Residuals are split between the two nearest centres of CELLS equal cells. The reflected kernel is diagonal in the
    cosines cos(pi k t), with eigenvalues exp(-(pi k sigma)^2 / 2), so a smoothing is a cosine transform, a product, and
    the inverse transform.
    """
    from scipy.fft import dct, idct

    spectrum = dct(_on_grid(t) / t.weight.sum(), norm="ortho")
    decay = -((np.pi * np.arange(CELLS)) ** 2) / 2

    def error(sigma: float) -> float:
        return float(np.abs(idct(spectrum * np.exp(decay * sigma**2), norm="ortho")).sum())

    return error


def _on_grid(t: Tally) -> Floats:
    """The sum of the residuals at each centre (CELLS,); those beyond the outermost centres are reflected onto them."""
    position = t.q * CELLS - 0.5
    below = np.floor(position).astype(np.int64)
    above, residual = position - below, t.residual
    cells = np.zeros(CELLS)
    cells += np.bincount((below + 1).clip(max=CELLS - 1), residual * above, CELLS)
    cells += np.bincount(below.clip(min=0), residual * (1 - above), CELLS)
    return cells


def _fixed_point(error: Callable[[float], float]) -> float:
    """The x with error(x) = x, for a decreasing error(x). The solution lies between x and error(x), for every x.

    Secant steps, and a bisection where a secant step leaves the bracket.
    """
    low, high, x = 0.0, 1.0, 0.05
    last = None
    for _ in range(100):
        gap = error(x) - x
        low, high = max(low, min(x, x + gap)), min(high, max(x, x + gap))
        if abs(gap) < TOLERANCE or high - low < TOLERANCE:
            break
        step = x - gap * (x - last[0]) / (gap - last[1]) if last and gap != last[1] else x + gap
        last, x = (x, gap), step if low < step < high else (low + high) / 2
    return x


METRICS.add(
    "smooth_ece",
    Metric(
        "smooth ECE",
        "calibration",
        "lowest",
        lambda draw: smooth_ece_of(draw.tally),
        leading=True,
        with_ends=True,
        order=70,
        column=10,
    ),
)
