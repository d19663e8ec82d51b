"""Newton's method for convex losses of a few parameters. Some parameters may be bounded below by 0."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats
from kgcore.errors import FitError

Matrix = npt.NDArray[np.float64]
MAX_STEPS, TOLERANCE = 200, 1e-10
ARMIJO, NEAR, RIDGE, ROUNDING, LEAST_GAIN = 1e-4, 1e-3, 1e-12, 1e-12, 1e-15
MOST_STALLED = 5


def minimise(
    name: str,
    loss: Callable[[Floats], float],
    derivatives: Callable[[Floats], tuple[Floats, Matrix]],
    start: Floats,
    bounded: Bools,
) -> Floats:
    """Return the v (m,) that minimises a convex loss, subject to v_i >= 0 where `bounded`.

    name         name of what is fitted, for the error message
    loss         v -> value, of order 1; smooth where it is finite, and infinite where v is not allowed
    derivatives  v -> gradient (m,) and Hessian (m, m)
    start        (m,) a point within the bounds, with a finite loss
    bounded      (m,) mask of the parameters that must be at least 0

    Projected Newton (Bertsekas 1982): the Newton step excludes a coordinate at 0 whose gradient is positive. The step
    is halved until the projected point has a lower loss. The iteration ends when v is within 1e-10 of the
    projection of v - gradient: by convexity v is then a minimum. It also ends after MOST_STALLED steps in a row that
    lower the loss by no more than 1e-15 and promise no more: large sums are rounded, and so is their gradient. Raises
    FitError if MAX_STEPS steps do not reach either.

    Sigmoid calibrators have another solver, kgcore/calibration/logistic.py. It satisfies a bound exactly, and its fit
    has the mean of the targets.
    """
    low = np.where(bounded, 0.0, -np.inf)
    v, current, stalled = start, loss(start), 0
    for _ in range(MAX_STEPS):
        gradient, hessian = derivatives(v)
        residual = float(np.abs(v - np.maximum(v - gradient, low)).max())
        if residual <= TOLERANCE:
            return v
        bound = bounded & (v <= min(NEAR, residual)) & (gradient > 0)
        free = ~bound
        direction = gradient.copy()
        if free.any():
            ridge = RIDGE * max(1.0, float(np.trace(hessian))) * np.eye(int(free.sum()))
            direction[free] = np.linalg.solve(hessian[np.ix_(free, free)] + ridge, gradient[free])
        step = 1.0
        while True:
            candidate = np.maximum(v - step * direction, low)
            expected = step * gradient[free] @ direction[free] + gradient[bound] @ (v - candidate)[bound]
            value = loss(candidate)
            if value <= current - ARMIJO * expected + ROUNDING * abs(current) or step < 1e-12:
                break  # ROUNDING accepts a full step near the minimum, where only rounding errors change the loss
            step /= 2
        least = LEAST_GAIN * max(1.0, abs(current))
        stalled = stalled + 1 if max(current - value, float(expected)) <= least else 0
        if stalled == MOST_STALLED:
            return v
        v, current = candidate, value
    raise FitError(
        f"{name} did not converge in {MAX_STEPS} steps: the projected gradient is {residual:.1e}, and must be at most "
        f"{TOLERANCE:.0e}"
    )
