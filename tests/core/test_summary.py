"""The summary of an evaluation: the best values, the report, the terminal output, and undefined metrics."""

import io
import re
from dataclasses import replace

import numpy as np
import pytest

from flows.cli.terminal import Terminal, show, show_table
from kgcore.config import EvaluateConfig
from kgcore.config.base import value_text
from kgcore.measure.evaluation.evaluate import Measured, evaluate
from kgcore.measure.metrics.base import every_metric, highest_best, ranked
from kgcore.measure.metrics.reliability import reliability
from kgcore.measure.report.data import coded, count_title, shown_settings
from kgcore.measure.report.page import page
from kgcore.measure.report.results import MetricsRow, Results, title
from kgcore.measure.report.summary import PipelineSummary, Summary
from tests.core.judged import AUDITS, predictions
from tests.core.samples import DISTORTIONS, calibrated


def summary_of(y: np.ndarray, q: np.ndarray) -> Summary:
    """Return a summary with two fitted calibrators, the second overconfident, and a baseline."""
    judged = predictions(
        {"uncalibrated": q**2, "synthetic.platt": q, "synthetic.isotonic": DISTORTIONS["overconfident"](q)}, y
    )
    return Summary(
        results=Results.of(evaluate(judged, EvaluateConfig(bootstrap_replicates=50))),
        accuracy_per_relation={"learned": 0.5, "median": 0.5},
        ranks={"mr": 1.0, "mrr": 1.0} | {f"hits_at_{n}": 1.0 for n in (1, 3, 10)},
    )


def printed(summary: Summary) -> str:
    file = io.StringIO()
    made_by = PipelineSummary(
        **vars(summary), dataset="d", model="m", loss="l", seed=0, runs={}, seconds={}, reused=(), report="r"
    )
    show(Terminal(file=file, width=200), made_by.result())
    return file.getvalue()


def html(summary: Summary, settings: dict[str, float] | None = None) -> str:
    return page("title", summary, AUDITS, {}, {}, {"evaluate": settings or {"bootstrap_level": 0.95}}, {})


def test_the_best_value_is_the_lowest_or_the_highest(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 500)
    results = summary_of(y, q).results
    best, platt, isotonic = results.best(), *(results.row("synthetic", name).metrics for name in ("platt", "isotonic"))
    assert set(best) == set(ranked())
    for name in ranked():
        pick = max if name in highest_best() else min
        assert best[name] == pick(platt[name], isotonic[name])
    assert best["smooth_ece"] == platt["smooth_ece"] < isotonic["smooth_ece"]
    fitted = results.best_fitted()
    assert fitted is not None
    assert fitted.label == "synthetic.platt"


def test_without_a_fitted_calibrator_there_is_no_best_one() -> None:
    results = Results((MetricsRow("", "uncalibrated", {"brier": 0.2}),))
    assert results.best_fitted() is None
    assert results.best() == {}


def test_every_number_of_the_page_has_its_interval(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 500)
    summary = summary_of(y, q)
    shown = html(summary)
    for row in summary.results.rows:
        for metric in (*ranked(), "sharpness"):
            if not every_metric()[metric].interval:
                assert metric not in row.intervals
                continue
            low, high = row.intervals[metric]
            assert f"{row.metrics[metric]:.4f}<small>{low:.4f} to {high:.4f}</small>" in shown
    assert "95 % intervals" in shown
    assert "ECE, smooth ECE, equal-mass ECE, miscalibration (Brier)" in shown
    assert "have no interval: on a finite sample they are biased" in shown
    platt = summary.results.row("synthetic", "platt")
    low, high = platt.intervals["auroc"]
    assert f"best: synthetic platt, {title('brier')}" in printed(summary)
    assert f"AUROC {platt.metrics['auroc']:.4f} [{low:.4f}, {high:.4f}]" in printed(summary)


def test_a_terminal_of_80_characters_cuts_no_name_and_no_number() -> None:
    names = ("brier", "log_loss", "ece", "sharpness", "accuracy", "mean_absolute_error", "mean_squared_error")
    metrics = dict.fromkeys(names, 0.1234)
    rows = (("", "constant_by_relation"), ("ground_truth", "smoothed_isotonic"), ("synthetic", "boosted_trees"))
    file = io.StringIO()
    show_table(Terminal(file=file, width=80), Results(tuple(MetricsRow(*names, metrics) for names in rows)).table())
    shown = file.getvalue()
    assert "…" not in shown
    assert shown.count("0.1234") == 6 * len(rows)
    assert {"constant", "relation", "isotonic", "synthetic", "absolute"} <= set(shown.split())


def test_backticks_become_code_and_everything_else_is_escaped() -> None:
    assert coded("the row `a < b` & c") == "the row <code>a &lt; b</code> &amp; c"


def test_a_metric_that_is_not_defined_is_called_so_and_never_nan(rng: np.random.Generator) -> None:
    summary = summary_of(np.ones(40), rng.random(40))
    assert "auroc" not in summary.results.best()
    assert all("auroc" not in row.metrics for row in summary.results.rows)
    assert html(summary).count("not defined") == 3
    assert "nan" not in html(summary).lower()
    assert "AUROC" not in printed(summary)


@pytest.mark.parametrize("settings", [{"tau": 0.5}, {"bins": 10}])
def test_summaries_without_intervals_are_shown(rng: np.random.Generator, settings: dict[str, float]) -> None:
    """Early versions measured four metrics, and no intervals."""
    summary, main = summary_of(*calibrated(rng, 100)[::-1]), ("brier", "log_loss", "ece", "accuracy")
    rows = [
        MetricsRow(row.negatives, row.calibrator, {name: row.metrics[name] for name in main})
        for row in summary.results.rows
    ]
    summary = replace(summary, results=Results(tuple(rows)))
    shown = html(summary, settings)
    assert "Calibration and discrimination" not in shown
    assert "<small>" not in shown
    assert "best: synthetic platt, Brier score" in printed(summary)


def test_terminal_and_page_use_the_same_words(rng: np.random.Generator) -> None:
    summary = summary_of(*calibrated(rng, 100)[::-1])
    shown, terminal = html(summary), printed(summary)
    assert "learned on validation 0.5000, median validation score 0.5000" in terminal
    assert "<td>learned on validation</td>" in shown
    assert "<td>median validation score</td>" in shown
    assert '<th class="n">accuracy</th>' in shown
    assert re.search(r"^none +uncalibrated ", terminal, re.MULTILINE)
    assert "<td>none</td><td>uncalibrated</td>" in shown


def test_the_page_shows_settings_as_options_have_them() -> None:
    settings = {"training_strategy": {"typed": 0.5, "uniform": 0.5}, "filtered": True, "calibrators": ["platt"]}
    assert [value_text(value) for value in settings.values()] == ["typed=0.5,uniform=0.5", "true", "platt"]
    assert value_text({"log_odds": True, "norm": 2.0}) == "log_odds=true,norm=2"
    assert value_text({}) == "none"


def test_only_generated_data_sets_show_how_they_were_generated() -> None:
    made = {"size": 300, "graph_seed": 0}
    assert shown_settings({"prepare": {"dataset": "family"} | made})["prepare"].keys() == {"dataset", *made}
    for name in ("wn11", "/data/mine"):
        assert shown_settings({"prepare": {"dataset": name} | made}) == {"prepare": {"dataset": name}}


def test_counts_are_named_in_words() -> None:
    assert count_title("train_with_unseen") == "train rows with unknown names"
    assert count_title("valid_positives_in_test") == "valid positives that are also in test"
    assert count_title("entities") == "entities"


def test_mlflow_gets_the_ends_of_two_intervals() -> None:
    metrics, ends = {"brier": 0.1, "ece": 0.2, "auroc": 0.9}, {"brier": (0.05, 0.15), "ece": (0.1, 0.3)}
    measured = Measured(metrics, reliability(np.array([0.5]), np.ones(1)), ends)
    assert measured.with_ends() == metrics | {"brier_low": 0.05, "brier_high": 0.15}
