"""Summary and report of what was measured, whatever of it is not defined."""

import io

import numpy as np
import pytest
from rich.console import Console

from flows.cli.tables.results import show_results
from kgcore.config import EvaluateConfig
from kgcore.evaluation.evaluate import evaluate
from kgcore.report.page import page
from kgcore.report.summary import HIGHEST_BEST, RANKED, best, interval, rows, summarise, with_intervals, word
from tests.core.samples import DISTORTIONS, calibrated
from tests.core.test_evaluation import predictions

AUDITS = {
    "corruptions": dict.fromkeys(
        (
            *("corruptions", "dropped", "fallbacks", "true_in_train", "true_in_valid", "true_in_test"),
            *("equal_to_source", "on_subject", "outside_range"),
        ),
        0.0,
    )
}


def summary_of(y: np.ndarray, q: np.ndarray) -> dict:
    """Two fitted calibrators, the second overconfident, and a baseline."""
    judged = predictions(
        {"uncalibrated": q**2, "synthetic.platt": q, "synthetic.isotonic": DISTORTIONS["overconfident"](q)}, y
    )
    measured = evaluate(judged, EvaluateConfig(bootstrap_replicates=50))
    relations, ranks = {"learned": 0.5, "median": 0.5}, {"mr": 1.0, "mrr": 1.0}
    return summarise(measured, relations, ranks | {f"hits_at_{n}": 1.0 for n in (1, 3, 10)})


def printed(summary: dict) -> str:
    file = io.StringIO()
    more = {"model": "m", "dataset": "d", "notes": [], "runs": {}, "reused": [], "report": "r"}
    show_results(Console(file=file, width=200), summary | more)
    return file.getvalue()


def html(summary: dict) -> str:
    return page("title", summary, [], AUDITS, {}, {}, {"evaluate": {"bootstrap_level": 0.95}}, {})


def test_the_best_is_the_lowest_or_of_some_the_highest(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 500)
    summary = summary_of(y, q)
    top, values = best(summary), summary["metrics"]["synthetic"]
    assert set(top) == set(RANKED)
    for name in RANKED:
        pick = max if name in HIGHEST_BEST else min
        assert top[name] == pick(values["platt"][name], values["isotonic"][name])
    assert top["smooth_ece"] == values["platt"]["smooth_ece"] < values["isotonic"]["smooth_ece"]


def test_every_number_of_the_page_has_its_interval(rng: np.random.Generator) -> None:
    q, y = calibrated(rng, 500)
    summary = summary_of(y, q)
    shown = html(summary)
    for negatives, name, values in rows(summary):
        for metric in (*RANKED, "sharpness"):
            low, high = interval(summary, negatives, name, metric)
            assert f"{values[metric]:.4f}<small>{low:.4f} to {high:.4f}</small>" in shown
    assert "95 % intervals" in shown
    low, high = summary["intervals"]["synthetic"]["platt"]["auroc"]
    assert f"best: synthetic platt, {word('brier')}" in printed(summary)
    assert f"AUROC {summary['metrics']['synthetic']['platt']['auroc']:.4f} [{low:.4f}, {high:.4f}]" in printed(summary)


def test_what_is_not_defined_is_said_and_no_nan_is_shown(rng: np.random.Generator) -> None:
    summary = summary_of(np.ones(40), rng.random(40))
    assert "auroc" not in best(summary)
    assert all("auroc" not in values for _, _, values in rows(summary))
    assert html(summary).count("not defined") == 3
    assert "nan" not in html(summary).lower()
    assert "AUROC" not in printed(summary)


@pytest.mark.parametrize("level", [{}, {"bins": 10}])
def test_summaries_from_before_there_were_intervals_are_shown(rng: np.random.Generator, level: dict) -> None:
    summary = summary_of(*calibrated(rng, 100)[::-1])
    main = ("brier", "log_loss", "ece", "accuracy")

    def old(values: dict) -> dict:
        return {
            name: values[name] if name in main else old(values[name])
            for name in values
            if name in main or (isinstance(values[name], dict))
        }

    summary = {name: value for name, value in summary.items() if name != "intervals"}
    summary["metrics"] = old(summary["metrics"])
    shown = page("title", summary, [], AUDITS, {}, {}, {"evaluate": level}, {})
    assert "Calibration and discrimination" not in shown
    assert "<small>" not in shown
    assert "best: synthetic platt, Brier score" in printed(summary)


def test_mlflow_gets_the_ends_of_two_metrics() -> None:
    metrics, ends = {"brier": 0.1, "ece": 0.2, "auroc": 0.9}, {"brier": (0.05, 0.15), "ece": (0.1, 0.3)}
    assert with_intervals(metrics, ends) == metrics | {"brier_low": 0.05, "brier_high": 0.15}
