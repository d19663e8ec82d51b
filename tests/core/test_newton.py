"""Newton's method, compared with another solver."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from kgcore.calibrate import logistic as fits
from kgcore.calibrate.logistic import TOLERANCE, minimise
from kgcore.errors import FitError


def logistic(seed: int, n: int):
    """Return the loss and derivatives of a logistic regression with two parameters on n rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, rng.uniform(0.1, 6), n)
    labels = (rng.random(n) < expit(z * rng.uniform(-0.5, 2) + rng.normal(0, 2))).astype(float)
    design, weights = np.stack([z, np.ones(n)]), np.where(labels == 1, rng.uniform(0.5, 2), rng.uniform(0.01, 1)) / n

    def loss(theta):
        u = theta @ design
        return float(weights @ (np.logaddexp(0, u) - labels * u) + theta @ theta / n)

    def derivatives(theta):
        q = expit(theta @ design)
        gradient = design @ (weights * (q - labels)) + 2 * theta / n
        return gradient, (design * (weights * q * (1 - q))) @ design.T + 2 / n * np.eye(2)

    return loss, derivatives


@pytest.mark.parametrize("bounded", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_equals_that_of_another_solver(seed: int, bounded: tuple[bool, bool]) -> None:
    loss, derivatives = logistic(seed, 300)
    found = minimise("a test", loss, derivatives, np.array([1.0, 0.0]), np.array(bounded))
    limits = [(0, None) if held else (None, None) for held in bounded]
    expected = minimize(loss, np.array([1.0, 0.0]), jac=lambda t: derivatives(t)[0], bounds=limits, tol=1e-14).x
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_the_minimum_is_reached_despite_the_rounding_of_a_long_sum(seed: int) -> None:
    loss, derivatives = logistic(seed, 60_000)
    found = minimise("a test", loss, derivatives, np.array([1.0, 0.0]), np.array([True, False]))
    gradient, _ = derivatives(found)
    assert np.abs(gradient[1]) <= TOLERANCE
    assert np.abs(gradient[0]) <= TOLERANCE or (found[0] == 0 and gradient[0] > 0)


def test_a_gradient_that_rounding_keeps_from_zero_is_a_minimum() -> None:
    rng, centre = np.random.default_rng(0), np.array([3.0, -2.0])
    steps = 0

    def derivatives(theta):
        nonlocal steps
        steps += 1
        return theta - centre + rng.choice([-1, 1], 2) * 3e-10, np.eye(2)

    found = minimise(
        "a test",
        lambda theta: float((theta - centre) @ (theta - centre)) / 2,
        derivatives,
        np.zeros(2),
        np.zeros(2) > 0,
    )
    np.testing.assert_allclose(found, centre, atol=1e-9)
    assert steps < 20


def test_a_minimum_that_is_not_reached_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fits, "MAX_STEPS", 1)
    with pytest.raises(FitError, match="a test did not converge in 1 steps"):
        minimise("a test", *logistic(0, 300), np.array([1.0, 0.0]), np.array([True, False]))
