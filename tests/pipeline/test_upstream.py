"""Upstream runs: the ways to name a run, the models that a run adopts, and runs that cannot be combined."""

from pathlib import Path

import mlflow
import pytest

from tests.conftest import tiny_options
from tests.folders import TRAIN, VALID, write_folder
from tests.pipeline.command import Kgcal, client_of, models_of, tags_of_run
from tests.pipeline.finished import finished

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    """Run a pipeline. Return its `kgcal` and its results."""
    return finished(tmp_path_factory.mktemp("first"), "--calibrators", "platt")


def test_a_run_with_other_held_out_files_adopts_the_model(tmp_path: Path) -> None:
    kgcal, folder = Kgcal(tmp_path), write_folder(tmp_path / "mine")
    options = ("--preset", "default", "--dataset", str(folder), "--k", "8", "--epochs", "3")
    before = kgcal.results(*options)
    write_folder(folder, valid=VALID[:-20])
    after = kgcal.results(*options)
    trained = [results["runs"]["train"] for results in (before, after)]
    assert tags_of_run(kgcal, trained[1]).adopted == trained[0]
    [[model], [adopted]] = (models_of(kgcal, run_id) for run_id in trained)
    assert model.tags["fingerprint"] == adopted.tags["fingerprint"] != ""
    forced = kgcal.results(*options, "--force")
    assert tags_of_run(kgcal, forced["runs"]["train"]).adopted is None
    write_folder(folder, train=TRAIN[:-1], valid=VALID[:-20])
    other = kgcal.results(*options)
    assert tags_of_run(kgcal, other["runs"]["train"]).adopted is None


def test_an_upstream_run_is_named_by_a_run_that_came_from_it_or_by_a_model(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    client = client_of(kgcal)
    mlflow.set_tracking_uri(f"sqlite:///{kgcal.home}/mlflow.db")  # MLflow looks `models:/` up there
    calibrator, *_ = models_of(kgcal, results["runs"]["calibrate"])
    [base] = models_of(kgcal, results["runs"]["train"])
    made = client.create_model_version(
        client.create_registered_model("mine").name,
        f"models:/{calibrator.model_id}",
        results["runs"]["calibrate"],
        model_id=calibrator.model_id,
    )
    client.set_registered_model_alias("mine", "best", made.version)
    settings = {"calibrate": ("--calibrators", "platt")}  # as in the pipeline, so that the stage is re-used
    for stage, option, named in (
        ("rank", "--model", f"models:/{base.model_id}"),
        ("rank", "--model", f"models:/{calibrator.model_id}"),
        ("classify", "--calibrators", "models:/mine@best"),
        ("calibrate", "--scores", f"models:/mine/{made.version}"),
        ("calibrate", "--scores", f"runs:/{results['runs']['score']}/scores.parquet"),
        ("calibrate", "--scores", results["runs"]["evaluate"]),
    ):
        done = kgcal(stage, option, named, *settings.get(stage, ()))
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == results["runs"][stage], named


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("models:/m-nosuch", "the model models:/m-nosuch does not exist in sqlite"),
        ("models:/nosuch@champion", "the model models:/nosuch@champion does not exist in sqlite"),
        ("models:/nosuch/1", "the model models:/nosuch/1 does not exist in sqlite"),
        ("runs:/nosuch/scores.parquet", "the run 'nosuch' does not exist in sqlite"),
    ],
)
def test_an_upstream_run_that_does_not_exist_is_reported(first: tuple[Kgcal, dict], named: str, message: str) -> None:
    kgcal, _ = first
    done = kgcal("calibrate", "--scores", named)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_other_training_triples_is_refused(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    other = kgcal.results(*tiny_options(), "--graph-seed", "1")
    done = kgcal("score", "--model", results["runs"]["train"], "--corruptions", other["pipeline"])
    assert done.returncode == 2
    assert "all inputs must come from the same" in done.stderr


def test_a_run_of_another_stage_is_refused(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    runs = results["runs"]
    done = kgcal("score", "--model", runs["prepare"], "--corruptions", runs["corrupt"])
    assert done.returncode == 2
    assert "is of stage prepare: a run of stage train is needed" in done.stderr
