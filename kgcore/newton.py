"""Newton's method for convex losses of a few parameters. Some parameters may be bounded below by 0."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Bools, Floats
from kgcore.errors import FitError

Matrix = npt.NDArray[np.float64]
MAX_STEPS, TOLERANCE = 200, 1e-10
ENOUGH = 0.25  # share of the decrease that the slope promises, which a step must reach (Armijo); a parabola reaches 0.5
RIDGE, ROUNDING, LEAST_GAIN = 1e-13, 1e-12, 1e-15
LONGEST = 1e3  # the first damped step has about this length at most, however flat the loss is
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

    The method is Newton's, with step halving and active sets (Nocedal & Wright 2006, chapter 16). A step ends at the
    first bound that it meets. The component at that bound then stays at 0 until the free components are at their
    minimum. Where the loss is nearly flat, a Newton step may be so long that no part of it lowers the loss. A growing
    multiple of the identity is then added to the Hessian, until a step does (section 3.4 there). The loss is convex, so
    the method converges from any start if a minimum exists. It ends when no free component of the gradient is above
    1e-10 in size, and no component at its bound would lower the loss by leaving it. It also ends after MOST_STALLED
    steps in a row that lower the loss by no more than 1e-15 and promise no more: large sums are rounded, and so is
    their gradient. Raises FitError if MAX_STEPS steps do not reach either.
    """
    v, damping, stalled = start.astype(np.float64), 0.0, 0
    current, free = loss(v), ~(bounded & (v <= 0))
    for _ in range(MAX_STEPS):
        gradient, curvature = derivatives(v)
        if np.abs(gradient[free]).max(initial=0.0) <= TOLERANCE:
            leave = int(np.argmin(np.where(free, 0.0, gradient)))
            if free[leave] or gradient[leave] >= -TOLERANCE:
                return v
            free[leave] = True
        hessian = curvature[np.ix_(free, free)]
        hessian += (damping + RIDGE * hessian.diagonal().max() + 1e-30) * np.eye(len(hessian))
        direction = np.zeros_like(v)
        direction[free] = np.linalg.solve(hessian, gradient[free])
        meets = bounded & free & (direction > 0)
        step = min(1.0, (v[meets] / direction[meets]).min(initial=np.inf))
        if step == 0:
            return v  # only a rounding error suggests leaving this bound
        slope = float(gradient @ direction)
        while (value := loss(v - step * direction)) > current - ENOUGH * step * slope + ROUNDING and step > 1e-8:
            step /= 2  # ROUNDING allows for rounding in the loss: near the minimum a full step is right
        if value > current + ROUNDING:  # no part of the step lowers the loss
            damping = max(10 * damping, np.abs(gradient[free]).max() / LONGEST)
            continue
        least = LEAST_GAIN * max(1.0, abs(current))
        stalled = stalled + 1 if max(current - value, step * slope) <= least else 0
        if stalled == MOST_STALLED:
            return v
        v, current, damping = v - step * direction, value, 0.0
        met = meets & (v <= 1e-15)
        v[met], free[met] = 0.0, False
    raise FitError(
        f"{name} did not converge in {MAX_STEPS} steps: the largest free component of the gradient is "
        f"{np.abs(gradient[free]).max(initial=0.0):.1e}, and must be at most {TOLERANCE:.0e}"
    )
