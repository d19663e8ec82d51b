"""What MLflow contains after `kgcal run`: nested runs, models, metrics with their data, series, figures, files."""

import getpass
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import LoggedModel, Run

from tests.conftest import TINY_TRAINING
from tests.pipeline.command import STAGE_NAMES, Kgcal, all_runs, client_of, runs_of, tags_of
from tests.pipeline.finished import finished


@dataclass(frozen=True)
class Logged:
    """The results of a pipeline, and everything that MLflow's client reads of it.

    runs    run id -> run
    models  every LoggedModel
    """

    kgcal: Kgcal
    results: dict[str, Any]
    runs: dict[str, Run]
    models: list[LoggedModel]

    @property
    def pipeline(self) -> Run:
        return self.runs[self.results["pipeline"]]

    def stage(self, name: str) -> Run:
        """Return the run of a stage."""
        return self.runs[self.results["runs"][name]]

    def calibrator(self, label: str) -> LoggedModel:
        """Return the model of the calibrator with that label."""
        [model] = [model for model in self.models if model.tags.get("label") == label]
        return model


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Logged:
    kgcal, results = finished(tmp_path_factory.mktemp("logged"))
    runs = {run.info.run_id: run for run in all_runs(kgcal)}
    experiment = runs[results["pipeline"]].info.experiment_id
    return Logged(kgcal, results, runs, list(client_of(kgcal).search_logged_models([experiment])))


def test_the_stages_are_nested_under_the_pipeline(logged: Logged) -> None:
    assert len(logged.runs) == 1 + len(STAGE_NAMES) + 8  # the pipeline, its stages, a measurement of each calibrator
    assert {run.info.status for run in logged.runs.values()} == {"FINISHED"}
    for stage in STAGE_NAMES:
        tags = tags_of(logged.stage(stage))
        assert (tags.stage, tags.parent) == (stage, logged.results["pipeline"])


def test_the_pipeline_has_the_settings_and_the_headline_metrics(logged: Logged) -> None:
    metrics, found = logged.results["metrics"], logged.pipeline.data.metrics
    assert logged.pipeline.data.params["base_rate"] == "0.5"
    assert found["syn.smoothed_isotonic.brier"] == metrics["synthetic"]["smoothed_isotonic"]["brier"]
    assert found["gt.smoothed_isotonic.smooth_ece"] == metrics["ground_truth"]["smoothed_isotonic"]["smooth_ece"]
    assert "gt.smoothed_isotonic.brier_miscalibration" not in found  # the evaluate run has all metrics
    evaluated = set(logged.stage("evaluate").data.metrics)
    named = {"gt.smoothed_isotonic.brier_miscalibration", "syn.beta.auroc", "uncalibrated.debiased_rmsce_low"}
    assert named <= evaluated


def test_the_data_set_is_the_input_of_the_pipeline_and_of_prepare(logged: Logged) -> None:
    for run in (logged.pipeline, logged.stage("prepare")):
        assert [data.dataset.name for data in run.inputs.dataset_inputs] == ["family"]


@pytest.mark.parametrize(
    ("name", "context"),
    [("prepare", "training"), *((name, "evaluation") for name in ("classify", "rank", "evaluate", "pipeline"))],
)
def test_a_run_that_measures_on_test_logs_its_data_set_as_an_evaluation(
    logged: Logged, name: str, context: str
) -> None:
    run = logged.pipeline if name == "pipeline" else logged.stage(name)
    measured = [run, *(one for one in logged.runs.values() if tags_of(one).parent == run.info.run_id)]
    for one in measured if name == "evaluate" else [run]:
        [data] = one.inputs.dataset_inputs
        assert (data.dataset.name, [tag.value for tag in data.tags]) == ("family", [context])


def test_the_pipeline_has_its_caller_and_the_commit_of_the_callers_project(logged: Logged, tmp_path: Path) -> None:
    tags = logged.pipeline.data.tags
    assert (tags["mlflow.source.name"], tags["mlflow.source.type"]) == ("kgcal", "LOCAL")
    assert tags["mlflow.user"] == logged.pipeline.info.user_id == getpass.getuser()
    assert "mlflow.source.git.commit" not in tags  # the folder of the command is no repository
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    kgcal = Kgcal(tmp_path)
    assert kgcal("prepare", "--size", "300").returncode == 0
    [run] = all_runs(kgcal)
    assert run.data.tags["mlflow.source.git.commit"] == commit


def test_parameters_are_spelt_as_on_the_command_line(logged: Logged) -> None:
    params = logged.pipeline.data.params
    assert params["training_strategy"] == "uniform=1"
    assert params["calibration_strategy"] == "typed=0.5,similar=0.5"
    assert (params["training_filtered"], params["calibration_filtered"]) == ("false", "true")
    assert params["model_options"] == "none"
    texts = {text for run in logged.runs.values() for text in run.data.params.values()}
    assert not texts & {"True", "False", "None"}
    assert not [text for text in texts if "{" in text or "'" in text]


def test_the_loss_is_a_series_with_a_step_for_each_epoch(logged: Logged) -> None:
    series = client_of(logged.kgcal).get_metric_history(logged.results["runs"]["train"], "loss")
    assert [point.step for point in series] == list(range(1, 21))


def test_the_run_of_train_has_the_system_metrics_that_are_asked_for(logged: Logged, tmp_path: Path) -> None:
    asked = {"MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "true", "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL": "0.01"}
    kgcal = Kgcal(tmp_path, **asked)
    assert kgcal("prepare", "--size", "300").returncode == 0
    [prepared] = runs_of(kgcal, "prepare")
    assert kgcal("train", "--data", prepared.info.run_id, *TINY_TRAINING).returncode == 0
    [trained] = runs_of(kgcal, "train")
    assert trained.data.metrics["system/system_memory_usage_megabytes"] > 0
    assert 0 <= trained.data.metrics["system/cpu_utilization_percentage"] <= 100
    others = [prepared, *logged.runs.values()]
    assert not [name for run in others for name in run.data.metrics if name.startswith("system/")]


def test_each_calibrator_is_a_model_over_one_base_model(logged: Logged) -> None:
    assert len(logged.models) == 9  # the base model, two baselines, three calibrators by two kinds of negatives
    [base] = [model for model in logged.models if "label" not in model.tags]
    assert {model.tags["base_model"] for model in logged.models if "label" in model.tags} == {base.model_id}
    assert {metric.key for metric in base.metrics} >= {"mrr", "hits_at_10"}
    beta = logged.calibrator("synthetic.beta")
    stored = {entry.path for entry in client_of(logged.kgcal).list_logged_model_artifacts(beta.model_id)}
    pyfunc = {"MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt"}
    assert stored == {"calibrator.json", "input_example.json", "serving_input_example.json"} | pyfunc


@pytest.mark.parametrize("metric", ["brier", "smooth_ece"])
def test_a_model_has_its_metrics_and_the_data_set_they_were_measured_on(logged: Logged, metric: str) -> None:
    [measured] = [entry for entry in logged.calibrator("synthetic.beta").metrics if entry.key == metric]
    assert measured.value == logged.results["metrics"]["synthetic"]["beta"][metric]
    assert measured.dataset_name == "family"


def test_each_calibrator_is_measured_in_a_run_of_its_own(logged: Logged) -> None:
    [beta] = [run for run in logged.runs.values() if run.info.run_name == "beta · synthetic · transe"]
    assert tags_of(beta).parent == logged.results["runs"]["evaluate"]
    assert beta.data.params["calibrator"] == "beta"
    intervals = logged.results["intervals"]["synthetic"]["beta"]
    ends = {
        f"{name}_{end}": intervals[name][number]
        for name in ("brier", "debiased_rmsce")
        for number, end in enumerate(("low", "high"))
    }
    assert beta.data.metrics == logged.results["metrics"]["synthetic"]["beta"] | ends


def test_a_measurement_has_the_settings_that_people_compare_by(logged: Logged) -> None:
    [isotonic] = [run for run in logged.runs.values() if run.info.run_name == "smoothed isotonic · synthetic · transe"]
    wanted = {"dataset": "family", "model": "transe", "loss": "self_adversarial", "k": "16"}
    wanted |= {"calibrator": "smoothed_isotonic", "negatives": "synthetic", "training_strategy": "uniform"}
    wanted |= {"calibration_strategy": "typed=0.5 similar=0.5", "calibration_sides": "bernoulli"}
    wanted |= {"calibration_filtered": "true"}
    found = dict(isotonic.data.params)
    assert float(found.pop("base_rate")) == pytest.approx(0.5)
    assert found.pop("hidden_share").startswith("1.8 % [")
    assert found == wanted


@pytest.mark.parametrize(
    ("stage", "metric"), [("classify", "gt.beta.accuracy"), ("evaluate", "gt.beta.auroc"), ("rank", "mrr")]
)
def test_a_metric_of_a_stage_names_its_data_set_and_its_model(logged: Logged, stage: str, metric: str) -> None:
    run_id = logged.results["runs"][stage]
    [point] = client_of(logged.kgcal).get_metric_history(run_id, metric)
    measured = {
        (entry.key, entry.run_id, entry.dataset_name) for model in logged.models for entry in model.metrics or []
    }
    assert (point.key, run_id, "family") in measured


def test_the_description_of_an_evaluation_has_its_table(logged: Logged) -> None:
    note = tags_of(logged.stage("evaluate")).note or ""
    assert f"{logged.results['metrics']['synthetic']['beta']['brier']:.4f}" in note


def test_the_pipeline_has_the_figures_and_no_file_is_a_pickle(logged: Logged) -> None:
    figures = [entry.path for entry in client_of(logged.kgcal).list_artifacts(logged.results["pipeline"], "figures")]
    assert figures == ["figures/reliability_ground_truth.png", "figures/reliability_synthetic.png"]
    files = {path.suffix for path in (logged.kgcal.home / "artifacts").rglob("*") if path.is_file()}
    pyfunc = {"", ".yaml", ".txt"}  # MLmodel, and the requirements of a calibrator
    assert files == {".parquet", ".json", ".safetensors", ".html", ".png"} | pyfunc
