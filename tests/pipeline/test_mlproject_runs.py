"""`mlflow run` for real: the run that MLflow opens is that of the pipeline or of the stage."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run

from flows.stages import STAGE_FLOWS
from tests.pipeline.command import CHECKOUT, Kgcal, all_runs, client_of, tags_of

pytestmark = pytest.mark.long


class Mlflow:
    """`mlflow run CHECKOUT`, started in another folder, on a store with one small pipeline that it has run."""

    def __init__(self, folder: Path) -> None:
        self.kgcal = Kgcal(folder)
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self.uri = f"sqlite:///{self.kgcal.home}/mlflow.db"
        self.kgcal.home.mkdir()
        small = {"size": 300, "k": 8, "epochs": 2, "training_strategy": "typed=0.5,uniform=0.5", "calibrators": "platt"}
        self.first = self(experiment="other", **small)

    def __call__(
        self, entry: str = "main", experiment: str = "kgcal", uri: str | None = "", **values: Any
    ) -> "subprocess.CompletedProcess[str]":
        environment = dict(self.kgcal.environment)
        environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
        if uri is not None:
            environment["MLFLOW_TRACKING_URI"] = uri or self.uri
        command = [sys.executable, "-m", "mlflow", "run", str(CHECKOUT), "-e", entry, "--env-manager", "local"]
        command += ["--experiment-name", experiment]
        command += [word for name, value in values.items() for word in ("-P", f"{name}={value}")]
        return subprocess.run(
            command, env=environment, cwd=self.elsewhere, capture_output=True, text=True, check=False, timeout=300
        )

    def newest(self, entry: str) -> Run:
        """Return the newest run that `mlflow run` opened for an entry point."""
        runs = [run for run in all_runs(self.kgcal) if run.data.tags.get("mlflow.project.entryPoint") == entry]
        return max(runs, key=lambda run: run.info.start_time)


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Mlflow:
    return Mlflow(tmp_path_factory.mktemp("mlproject"))


def test_the_run_that_main_opens_is_the_pipelines(mlflow: Mlflow) -> None:
    assert mlflow.first.returncode == 0, mlflow.first.stderr
    opened = mlflow.newest("main")
    assert (opened.info.status, tags_of(opened).stage) == ("FINISHED", "pipeline")
    assert client_of(mlflow.kgcal).get_experiment(opened.info.experiment_id).name == "other"
    nested = [run for run in all_runs(mlflow.kgcal) if run.data.tags.get("mlflow.parentRunId") == opened.info.run_id]
    unused = {"match", "choose", "evidence"}  # no candidates, no race, too few labels for evidence
    assert {tags_of(run).stage for run in nested} == {function.name for function in STAGE_FLOWS} - unused
    assert {run.info.experiment_id for run in nested} == {opened.info.experiment_id}
    [train] = [tags_of(run).config for run in nested if tags_of(run).stage == "train"]
    assert (train["k"], train["training_strategy"]) == (8, {"typed": 0.5, "uniform": 0.5})


def test_the_parameters_are_what_was_trained(mlflow: Mlflow) -> None:
    """MLflow records the parameters that it passes on. So these must not contain defaults of settings that a preset can
    choose.
    """
    params = mlflow.newest("main").data.params
    assert (params["k"], params["loss"], params["epochs"]) == ("8", "self_adversarial", "2")
    assert params["training_strategy"] == "typed=0.5,uniform=0.5"
    assert params["learning_rate"] == "0.005"
    assert (params["preset"], params["preset.filled"]) == ("default", "none")


def test_a_stage_runs_from_another_folder_in_its_run_and_is_reused_in_the_next(mlflow: Mlflow) -> None:
    done = mlflow("calibrate", base_rate=".25")
    assert done.returncode == 0, done.stderr
    opened = mlflow.newest("calibrate")
    assert (opened.info.status, tags_of(opened).stage) == ("FINISHED", "calibrate")
    assert (tags_of(opened).config or {})["base_rate"] == 0.25
    assert opened.info.run_id in done.stdout

    scores = tags_of(opened).inputs["score"]
    again = mlflow("calibrate", experiment="third", base_rate="0.25", scores=scores)
    assert again.returncode == 0, again.stderr
    second = mlflow.newest("calibrate")
    assert second.info.run_id != opened.info.run_id
    assert (second.info.status, tags_of(second).stage) == ("FINISHED", None)
    assert second.data.tags["mlflow.note.content"] == f"Nothing to do: re-used run `{opened.info.run_id}`."


def test_a_mistake_ends_the_opened_run_as_failed(mlflow: Mlflow) -> None:
    done = mlflow("classify", calibrators="--force", ta="0.3")
    assert done.returncode != 0
    assert "kgcal: the entry point classify has no parameter 'ta': it has tau" in done.stderr
    assert mlflow.newest("classify").info.status == "FAILED"


def test_without_a_tracking_uri_the_sentence_says_how_to_set_it(mlflow: Mlflow) -> None:
    done = mlflow("rank", uri=None)
    assert done.returncode != 0
    [said] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert f"`export MLFLOW_TRACKING_URI={mlflow.uri}` before `mlflow run`" in said
    assert "Traceback" not in done.stderr


def test_a_tracking_uri_that_depends_on_the_folder_is_refused(mlflow: Mlflow) -> None:
    environment = {"MLFLOW_TRACKING_URI": "sqlite:///here.db", "MLFLOW_RUN_ID": "0" * 32}
    done = Kgcal(mlflow.elsewhere, **environment)("report")
    assert done.returncode == 2
    assert "MLFLOW_TRACKING_URI=sqlite:///here.db has a relative path" in done.stderr
    assert not (mlflow.elsewhere / "here.db").exists()
