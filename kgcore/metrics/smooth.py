"""Smooth ECE: a calibration error that uses a kernel instead of bins. The data determine the width of the kernel."""

from collections.abc import Callable

import numpy as np

from kgcore.arrays import Floats
from kgcore.metrics.base import Metric, Tally
from kgcore.registries import METRICS

CELLS = 2048  # cells of the grid on [0, 1]: narrow compared with the kernel for samples of up to a million triples
TOLERANCE = 1e-10


def smooth_ece(t: Tally) -> float:
    """Return the smooth ECE, in [0, 1]: the sigma at which smECE_sigma = sigma.

    Błasiok & Nakkiran, ICLR 2024, "Smooth ECE: Principled Reliability Diagrams via Kernel Smoothing", definitions 2 to
    4.

    smECE_sigma = integral over t in [0, 1] of |sum_i w_i (y_i - q_i) K_sigma(t, q_i)| / sum_i w_i

    K_sigma is the Gaussian density with standard deviation sigma about q_i; its mass beyond 0 and 1 is reflected back.
    smECE_sigma falls as sigma grows, so exactly one sigma satisfies smECE_sigma = sigma. Unlike errors over bins,
    smooth ECE has no setting and does not jump when probabilities change a little. It is near 0 if, and only if, the
    probabilities are near perfect calibration.
    """
    from scipy.optimize import brentq

    error = smoothed_error(t)
    return min(float(brentq(lambda sigma: error(sigma) - sigma, 0.0, 2.0, xtol=TOLERANCE)), 1.0)


def smoothed_error(t: Tally) -> Callable[[float], float]:
    """Return the function sigma -> smECE_sigma of a tally.

    The interval [0, 1] is divided into CELLS equal cells, and each residual is split between the two nearest cell
    centres. The reflected kernel is diagonal in the cosines cos(pi k t), with eigenvalues exp(-(pi k sigma)^2 / 2). So
    the smoothing is a cosine transform, a product with the eigenvalues, and the inverse transform.
    """
    from scipy.fft import dct, idct

    spectrum = dct(_on_grid(t) / t.weight.sum(), norm="ortho")
    decay = -((np.pi * np.arange(CELLS)) ** 2) / 2

    def error(sigma: float) -> float:
        return float(np.abs(idct(spectrum * np.exp(decay * sigma**2), norm="ortho")).sum())

    return error


def _on_grid(t: Tally) -> Floats:
    """Return the sum of the residuals at each cell centre (CELLS,).

    A residual between an end of [0, 1] and the nearest centre is added to this centre in full.
    """
    position = t.q * CELLS - 0.5
    below = np.floor(position).astype(np.int64)
    above, residual = position - below, t.residual
    cells = np.zeros(CELLS)
    cells += np.bincount((below + 1).clip(max=CELLS - 1), residual * above, CELLS)
    cells += np.bincount(below.clip(min=0), residual * (1 - above), CELLS)
    return cells


METRICS.add(
    "smooth_ece",
    Metric("smooth ECE", "calibration", "lowest", smooth_ece, leading=True, interval=False, order=70, column=10),
)
