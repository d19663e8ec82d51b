"""The base rate: how it is read, and how it is written."""

import pytest
from scipy import stats

from kgcore.base_rate import BaseRate
from kgcore.config.calibrate import share_of
from kgcore.errors import InputError


@pytest.mark.parametrize(
    ("text", "rate", "limits"),
    [
        ("0.1", 0.1, None),
        (0.25, 0.25, None),
        ("0.2:0.8", 0.5, (0.2, 0.8)),
        ("0.01:0.05", pytest.approx(0.0225375), (0.01, 0.05)),
        (None, None, None),
        ("", None, None),
    ],
)
def test_a_base_rate_is_a_number_or_an_interval(text: object, rate: object, limits: object) -> None:
    found = BaseRate.read(text)  # type: ignore[arg-type]
    assert (found and found.value, found and found.limits) == (rate, limits)


@pytest.mark.parametrize(("true", "size"), [(0, 20), (3, 20), (20, 20), (500, 10_000)])
def test_a_sample_estimates_it_with_an_interval(true: int, size: int) -> None:
    rate, posterior = BaseRate.of_sample(true, size), stats.beta(true + 0.5, size - true + 0.5)
    assert rate.value == pytest.approx(posterior.mean())
    assert rate.limits == pytest.approx(posterior.interval(0.95))
    assert rate.origin == "estimated"


@pytest.mark.parametrize("text", ["0:0.5", "0.5:0.1", "1", "half", "0.1:0.2:0.3", ":", "0.1:1"])
def test_other_base_rates_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="above 0 and below 1, or LOW:HIGH, such as 0"):
        BaseRate.read(text)


@pytest.mark.parametrize("text", ["1e-320", "1e-300:0.1", "0.9999999999999999"])
def test_shares_that_rounding_would_replace_are_refused(text: str) -> None:
    for name, read in (("base_rate", BaseRate.read), ("completeness", share_of)):
        with pytest.raises(InputError, match=f"{name} is .*: it must be above 0 and below 1 by 1e-12 or more"):
            read(text)


@pytest.mark.parametrize(
    ("rate", "limits", "origin", "text"),
    [
        (0.49395123, None, "estimated", "0.494, estimated"),
        (0.022474487, None, "estimated", "0.0225, estimated"),
        (0.9995123, None, "estimated", "0.999512, estimated"),
        (0.12345, None, "stated", "0.12345, stated"),
        (0.022474487, (0.01, 0.05), "stated", "0.0225 [0.01, 0.05], stated"),
        (0.5, None, "assumed", "0.5, assumed"),
    ],
)
def test_a_base_rate_is_written_with_its_origin(
    rate: float, limits: tuple[float, float] | None, origin: str, text: str
) -> None:
    assert str(BaseRate(rate, *(limits or (None, None)), origin)) == text
