"""`kgcal run` as a user runs it: the JSON of its results, the report, single stages, and a data set of the user."""

import json
from pathlib import Path

import pandas as pd
import pytest

from kgcore.registries import METRICS
from tests.folders import write_folder
from tests.pipeline.command import FORKS_WITH_FEW_TREES, STAGE_NAMES, Kgcal, all_runs
from tests.pipeline.finished import finished


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    """Run a pipeline. Return its `kgcal` and its results."""
    return finished(tmp_path_factory.mktemp("first"))


def test_the_json_names_the_model_and_every_stage(first: tuple[Kgcal, dict]) -> None:
    _, results = first
    assert (results["dataset"], results["model"], results["loss"]) == ("family", "transe", "self_adversarial")
    assert results["seed"] == 0
    assert list(results["runs"]) == STAGE_NAMES
    assert list(results["seconds"]) == STAGE_NAMES


def test_the_json_has_the_metrics_of_every_calibrator(first: tuple[Kgcal, dict]) -> None:
    _, results = first
    metrics = results["metrics"]
    for values in (
        metrics["uncalibrated"],
        metrics["base_rate"],
        *(metrics[n][c] for n in ("ground_truth", "synthetic") for c in ("per_relation", "smoothed_isotonic", "beta")),
    ):
        assert set(values) >= {"brier", "log_loss", "ece", "accuracy", "smooth_ece", "brier_miscalibration", "auroc"}
    assert set(results["accuracy_per_relation"]) == {"learned", "median"}
    assert set(results["ranks"]) == {"mr", "mrr", "hits_at_1", "hits_at_3", "hits_at_10"}
    assert (
        metrics["ground_truth"]["smoothed_isotonic"]["brier"]
        < metrics["base_rate"]["brier"]
        < metrics["uncalibrated"]["brier"]
    )


def test_the_json_has_an_interval_around_every_metric_whose_interval_covers(first: tuple[Kgcal, dict]) -> None:
    _, results = first
    metrics = results["metrics"]
    assert set(metrics) == set(results["intervals"])
    found, intervals = metrics["synthetic"]["smoothed_isotonic"], results["intervals"]["synthetic"]["smoothed_isotonic"]
    assert set(intervals) == {name for name in found if METRICS.get(name).interval}
    assert {"ece", "smooth_ece"} <= set(found) - set(intervals)
    assert all(low <= found[name] <= high for name, (low, high) in intervals.items())


def test_the_report_stands_alone(first: tuple[Kgcal, dict]) -> None:
    _, results = first
    html = Path(results["report"]).read_text()
    assert html.count("<svg") == 3
    assert "src=" not in html
    assert 'href="http' not in html
    assert f"{results['metrics']['synthetic']['smoothed_isotonic']['brier']:.4f}" in html
    low, high = results["intervals"]["synthetic"]["smoothed_isotonic"]["debiased_rmsce"]
    assert f"{low:.4f} to {high:.4f}" in html
    assert "Calibration and discrimination" in html
    assert "nan" not in html
    assert all(run_id in html for stage, run_id in results["runs"].items() if stage != "report")


def test_the_calibrators_of_all_runs_are_compared(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    target = kgcal.home.parent / "compared.csv"
    done = kgcal("compare", "--dataset", "family", "--base-rate", "0.5", "--top", "2", "--csv", str(target))
    assert done.returncode == 0, done.stderr
    frame = pd.read_csv(target)
    own = frame[frame["run"] == results["pipeline"]]
    assert len(own) == 8  # six calibrators, two baselines
    assert own["brier"].is_monotonic_increasing
    fitted = own[own["negatives"] != "none"]
    for row in fitted.itertuples():
        assert row.brier == results["metrics"][row.negatives][row.calibrator]["brier"]
        assert (row.model, row.loss, row.k, row.mrr) == ("transe", "self_adversarial", 16, results["ranks"]["mrr"])
        assert row.smooth_ece == results["metrics"][row.negatives][row.calibrator]["smooth_ece"]
    assert f"{fitted['brier'].min():.4f}*" in done.stdout
    smooth = kgcal("compare", "--dataset", "family", "--base-rate", "0.5", "--metric", "smooth_ece")
    assert f"{fitted['smooth_ece'].min():.4f}*" in smooth.stdout
    assert f"the first row's run: {results['pipeline']}" in done.stdout
    assert not list(target.parent.glob(".*.partial"))


def test_one_stage_runs_from_the_run_ids_of_its_upstream(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    done = kgcal("calibrate", "--scores", results["runs"]["score"], "--base-rate", "0.1", "--calibrators", "platt")
    assert done.returncode == 0, done.stderr
    calibrators = done.stdout.strip()
    done = kgcal("classify", "--calibrators", calibrators)
    assert done.returncode == 0, done.stderr
    ranks = kgcal("rank", "--model", "latest", "--ranked-facts", "40")
    assert ranks.returncode == 0, ranks.stderr
    done = kgcal("evaluate", "--predictions", done.stdout.strip(), "--ranks", ranks.stdout.strip())
    assert done.returncode == 0, done.stderr
    done = kgcal("report", "--evaluation", done.stdout.strip())
    assert done.returncode == 0, done.stderr
    [report] = (kgcal.home / "artifacts" / done.stdout.strip()).rglob("report.html")
    assert "Ranks: 40 of " in report.read_text()
    assert "Ranks: " not in Path(results["report"]).read_text()


def test_the_data_sets_are_listed_with_the_local_copies(first: tuple[Kgcal, dict]) -> None:
    kgcal, _ = first
    done = kgcal("datasets")
    assert done.returncode == 0
    for text in ("wn11", "112,581", "fb15k-237", "14,541", "family-300-0"):
        assert text in done.stdout


def test_a_folder_of_ones_own_needs_no_labelled_negatives(tmp_path: Path) -> None:
    kgcal, folder = Kgcal(tmp_path), write_folder(tmp_path / "mine")
    kgcal.forks = FORKS_WITH_FEW_TREES
    results = kgcal.results(
        *("--dataset", str(folder), "--preset", "default", "--k", "8", "--epochs", "3", "--base-rate", "0.2"),
        *("--calibrators", "smoothed_isotonic", "--calibration-eta", "3"),
    )
    assert results["dataset"] == "mine"
    assert "ground_truth" not in results["metrics"]
    assert results["metrics"]["base_rate"]["brier"] == pytest.approx(0.16)
    assert "no labelled negatives" in Path(results["report"]).read_text()
    low, high = results["intervals"]["synthetic"]["smoothed_isotonic"]["auroc"]
    assert low < results["metrics"]["synthetic"]["smoothed_isotonic"]["auroc"] < high
    recorded = [(run.data.tags, run.data.params) for run in all_runs(kgcal)]
    assert str(folder) not in json.dumps(recorded)
