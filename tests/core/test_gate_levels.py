"""How often the gate errs, on known truth: short versions of the tables that docs/scripts/exam.py and
exam_base_rates.py make.

Each limit is far enough from the rate of docs/explanation/exam.md that 20 to 200 repetitions do not cross it.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.docs.scripts import script

exam, exam_base_rates = script("exam"), script("exam_base_rates")


def rates(function: Callable[..., tuple[bool, ...]], repetitions: int) -> list[float]:
    return exam.shares(function, repetitions, 1)


@pytest.mark.parametrize("corruptions", [0, 20])
def test_an_equal_challenger_is_found_better_at_the_level(corruptions: int) -> None:
    found, _, passed = rates(partial(exam.equal, n=300, corruptions=corruptions), 200)
    assert passed <= found <= 0.06  # .025 expected


@pytest.mark.parametrize("kind", ["shifted", "overconfident"])
@pytest.mark.parametrize("n", [300, 3000])
def test_a_challenger_whose_calibration_is_worse_by_twice_the_margin_does_not_pass(n: int, kind: str) -> None:
    better, _, passed = rates(partial(exam.worse, n=n, kind=kind), 60)
    assert better > 0.8  # so that only the calibration error stops it
    assert passed <= 0.05


def test_a_better_challenger_passes() -> None:
    assert rates(partial(exam.better, n=2000), 50)[2] >= 0.9


def test_the_right_calibrator_for_the_stated_base_rate_wins() -> None:
    right, wrong = rates(partial(exam_base_rates.base_rates, n=1000), 100)
    assert right >= 0.95
    assert wrong == 0


@pytest.mark.parametrize(("rate", "n"), [(0.1, 200), (0.01, 200), (0.01, 1000), (0.001, 1000), (0.001, 5000)])
@pytest.mark.parametrize("kind", ["shifted", "overconfident", "equal"])
def test_a_challenger_that_is_not_better_does_not_pass_at_a_low_base_rate(kind: str, rate: float, n: int) -> None:
    found, _, _ = rates(partial(exam_base_rates.low_base_rate, n=n, rate=rate, kind=kind), 100)
    assert found <= 0.03  # .00 expected; .03 to .56 if the variance is that of the sample alone


def test_a_better_challenger_passes_at_a_low_base_rate() -> None:
    function = exam_base_rates.low_base_rate
    assert rates(partial(function, n=1000, rate=0.1, kind="better", corruptions=20), 20)[2] >= 0.9
    assert rates(partial(function, n=1000, rate=0.01, kind="better", corruptions=20), 20)[2] >= 0.7


@pytest.mark.parametrize("kind", ["shifted", "overconfident"])
def test_the_margin_is_one_of_the_base_rate(kind: str) -> None:
    _, found, _ = rates(partial(exam_base_rates.miscalibrated, n=1000, rate=0.01, kind=kind), 60)
    assert found <= 0.05  # .05 for every base rate lets all pass


def test_the_best_of_several_equal_calibrators_is_not_found_better() -> None:
    counted, alone = (rates(partial(exam.chosen, n=500, count=20, counted=c), 150)[0] for c in (True, False))
    assert counted <= 0.06  # .025 at most
    assert alone > 0.06


def test_many_days_are_paid_for() -> None:
    spent, unpaid = (rates(partial(exam.many_days, n=200, days=20, together=5, spend=s), 20)[0] for s in (True, False))
    assert spent <= 0.1  # .05 at most; more if every day has the level of the first
    assert unpaid > 0.2


@pytest.mark.parametrize(("shift", "slope"), [(-2.0, 1.0), (0.0, -1.0)])
def test_one_cycle_answers_drift(shift: float, slope: float) -> None:
    answered, changed, right = rates(partial(exam.cycle, world=exam.World(shift, slope), labels=400), 20)
    assert answered == 1
    assert changed >= 0.9
    assert right >= 0.9


def test_one_cycle_without_drift_changes_nothing() -> None:
    _, changed, _ = rates(partial(exam.cycle, world=exam.World(), labels=400), 30)
    assert changed <= 0.05
