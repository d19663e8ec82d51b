"""Base rates from labels alone."""

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from kgcore.calibrate.support import exact_limits
from kgcore.errors import FitError, InputError
from kgcore.mixture.interval import Rate, is_narrow, labelled_rate, labelled_rates, labels_needed


@pytest.mark.parametrize(("true", "labels"), [(0, 20), (1, 20), (7, 50), (20, 20)])
def test_the_interval_is_that_of_scipy(true: int, labels: int) -> None:
    expected = binomtest(true, labels).proportion_ci(0.95, "exact")
    assert exact_limits(true, labels) == pytest.approx((expected.low, expected.high))
    own = labelled_rate(np.r_[np.ones(true), np.zeros(labels - true)])
    assert (own.value, own.low, own.high) == pytest.approx((true / labels, expected.low, expected.high))


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5])
def test_the_interval_covers(rate: float) -> None:
    limits = np.array([exact_limits(x, 100) for x in range(101)])
    inside = (limits[:, 0] <= rate) & (rate <= limits[:, 1])
    assert binom.pmf(np.arange(101), 100, rate)[inside].sum() >= 0.95


def test_rates_by_relation() -> None:
    rates = labelled_rates(np.array([1.0, 0, 1, 1]), np.array([4, 4, 7, 7]))
    assert {p: rate.value for p, rate in rates.items()} == {4: 0.5, 7: 1.0}


@pytest.mark.parametrize(("rate", "hardest"), [(Rate(0.3, 0.2, 0.8), 0.5), (Rate(0.3, 0.25, 0.35), 0.35)])
def test_the_number_of_labels_is_the_least_that_makes_the_interval_narrow(rate: Rate, hardest: float) -> None:
    n = labels_needed(rate, 0.1)
    widths = [np.subtract(*exact_limits(hardest * m, m)[::-1]) for m in (n - 1, n)]
    assert widths[0] > 0.1 >= widths[1]


@pytest.mark.parametrize(("rate", "likely"), [(Rate(0.01, 0.0, 0.03), 0.01), (Rate(0.0, 0.0, 0.02), 0.001)])
def test_a_low_base_rate_needs_labels_until_its_order_of_magnitude_is_known(rate: Rate, likely: float) -> None:
    n = labels_needed(rate, 0.1)
    assert is_narrow(*exact_limits(likely * n, n), 0.1)
    assert not is_narrow(*exact_limits(likely * (n - 1), n - 1), 0.1)
    assert 7 / likely < n < 12 / likely


def test_narrow_means_in_width_and_in_odds() -> None:
    assert Rate(0.5, 0.45, 0.54).is_narrow(0.1)
    assert not Rate(0.5, 0.4, 0.6).is_narrow(0.1)
    assert Rate(0.01, 0.006, 0.02).is_narrow(0.1)
    assert not Rate(0.01, 0.001, 0.05).is_narrow(0.1)
    assert not Rate(0.99, 0.95, 0.999).is_narrow(0.1)
    assert not Rate(0.0, 0.0, 0.01).is_narrow(0.1)


def test_mistakes() -> None:
    with pytest.raises(FitError, match="there are no labels"):
        labelled_rate(np.array([]))
    with pytest.raises(InputError, match="must be 0"):
        labelled_rate(np.array([0.5]))
    with pytest.raises(InputError, match="above 0 and below 1"):
        labels_needed(Rate(0.5, 0.4, 0.6), 1.0)
    with pytest.raises(InputError, match="needs more than 10,000,000 labels"):
        labels_needed(Rate(0.5, 0.4, 0.6), 1e-5)
