"""The registry of metrics: what every metric must do, the tables made from it, and a new metric at run time."""

from collections.abc import Iterator

import numpy as np
import pytest

from kgcore.measure.metrics.base import Metric, Sample, Tally, every_metric, highest_best, metric_names, ranked
from kgcore.measure.report.page import page
from kgcore.measure.report.results import Results, first_table, further_tables, headline, leading, overview, title
from kgcore.measure.report.summary import Summary
from kgcore.registries import METRICS
from tests.core.judged import AUDITS, measure
from tests.core.samples import calibrated, pair_weights

PARTS = ("miscalibration", "discrimination", "uncertainty")


def sample_of(rng: np.random.Generator, n: int = 400, soft: bool = False) -> Sample:
    q, y = calibrated(rng, n)
    return Sample(q, 0.8 * y + 0.1 if soft else y, pair_weights(y, 0.3))


@pytest.mark.parametrize("name", METRICS.names())
def test_a_metric_lies_in_its_range(name: str, rng: np.random.Generator) -> None:
    metric = METRICS.get(name)
    value = metric.figure(sample_of(rng, soft=metric.family == "confidence").tally())
    lowest, highest = metric.range
    assert lowest <= value <= highest


@pytest.mark.parametrize("name", METRICS.names())
def test_a_metric_of_a_draw_is_that_of_the_drawn_rows(name: str, rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 200)
    y = 0.8 * y + 0.1 if METRICS.get(name).family == "confidence" else y
    q = q.round(1)  # then the draw has every distinct probability, and thus the same bins
    counts = rng.integers(1, 3, 200).astype(float)
    times = counts.astype(int)
    drawn = Sample(q, y, bins=1).tally(counts)
    repeated = Sample(np.repeat(q, times), np.repeat(y, times), bins=1).tally()
    assert METRICS.get(name).figure(drawn) == pytest.approx(METRICS.get(name).figure(repeated), abs=1e-9)


def test_the_tables_have_these_columns_in_this_order() -> None:
    assert headline() == ("brier", "log_loss", "ece", "accuracy")
    assert first_table() == ("brier", "log_loss", "ece", "sharpness", "accuracy")
    assert first_table(confidences=True) == (*first_table(), "mean_absolute_error")
    assert overview() == (*first_table(), "smooth_ece", "debiased_rmsce", "auroc")
    assert leading() == ("brier", "smooth_ece", "debiased_rmsce", "auroc")
    calibration, discrimination = further_tables().values()
    errors = ("smooth_ece", "ece_equal_mass", "debiased_rmsce", "brier_miscalibration", "log_loss_miscalibration")
    areas = ("brier_discrimination", "log_loss_discrimination", "auroc", "average_precision")
    assert (calibration, discrimination) == (errors, (*areas, "sharpness"))
    assert ranked() == (*headline(), *errors, *areas)
    assert highest_best() == {"accuracy", *areas}
    assert metric_names("uncertainty") == ("brier_uncertainty", "log_loss_uncertainty")


def test_artifacts_list_the_metrics_in_this_order() -> None:
    parts = [f"{score}_{part}" for score in ("brier", "log_loss") for part in PARTS]
    first = ["brier", "log_loss", "ece", "accuracy", "ece_equal_mass", "debiased_rmsce", "smooth_ece"]
    last = ["auroc", "average_precision", "sharpness", *metric_names("confidence")]
    assert list(every_metric()) == [*first, *parts, *last]


def test_a_title_is_for_people_and_an_unknown_metric_has_its_name() -> None:
    assert [title(name) for name in ("brier", "auroc", "ece_equal_mass")] == ["Brier score", "AUROC", "equal-mass ECE"]
    assert title("of_a_later_version") == "of a later version"


def test_a_shared_computation_runs_once_per_tally(rng: np.random.Generator) -> None:
    calls: list[Tally] = []
    sample = sample_of(rng)
    first, second = sample.tally(), sample.tally()
    for tally in (first, first, second):
        tally.once(calls.append)
    assert calls == [first, second]


@pytest.fixture
def spread() -> Iterator[str]:
    METRICS.add("spread", Metric("spread of q", "calibration", "lowest", lambda t: float(np.ptp(t.q))))
    yield "spread"
    METRICS.remove("spread")


def test_a_new_metric_is_measured_ranked_and_shown(spread: str, rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 300)
    found = measure(q, y)
    assert found.metrics[spread] == pytest.approx(np.ptp(q))
    assert found.intervals[spread][1] <= 1
    results = Results.of({"synthetic.platt": found})
    assert results.best()[spread] == found.metrics[spread]
    summary = Summary(results=results, accuracy_per_relation={"learned": 0.5, "median": 0.5}, ranks={"mr": 1.0})
    html = page("title", summary, AUDITS, {}, {}, {}, {})
    assert '<th class="n">spread of q</th>' in html
    assert f"{found.metrics[spread]:.4f}<small>" in html
    assert list(every_metric())[-1] == metric_names("calibration")[-1] == spread
