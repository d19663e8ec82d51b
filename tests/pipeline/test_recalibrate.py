"""`kgcal recalibrate`: new labels, a new base rate, and the settings that it takes from the given run."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run

from kgcore.data.datasets.labels import for_exam, read_labels
from tasks.tracking.artifacts import CALIBRATOR
from tests.pipeline.command import Kgcal, all_runs, client_of, model_folder, models_of, tags_of_run
from tests.pipeline.finished import finished

SETTINGS = ("--calibration-strategy", "uniform", "--calibrators", "platt", "--bins", "5")


@dataclass(frozen=True)
class Labelled:
    """A pipeline, and its recalibration with new labels for another base rate.

    options  options of the recalibration, without the model
    """

    kgcal: Kgcal
    before: dict[str, Any]
    after: dict[str, Any]
    options: tuple[str, ...]
    stderr: str

    def run(self, results: dict[str, Any], stage: str) -> Run:
        """Return the run of a stage."""
        return client_of(self.kgcal).get_run(results["runs"][stage])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    """Run a pipeline. Return its `kgcal` and its results."""
    return finished(tmp_path_factory.mktemp("first"), *SETTINGS)


@pytest.fixture(scope="module")
def moved(first: tuple[Kgcal, dict], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Recalibrate the pipeline to the base rate 0.1, and return the results."""
    kgcal, before = first
    return recalibrated(kgcal, tmp_path_factory.mktemp("moved"), before["pipeline"], "--base-rate", "0.1")[0]


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    folder = tmp_path_factory.mktemp("labelled")
    kgcal, before = finished(folder, *SETTINGS)
    options = ("--labels", str(new_labels(kgcal, folder)), "--base-rate", "0.3", "--exam-share", "0.25")
    after, stderr = recalibrated(kgcal, folder, "--model", before["runs"]["train"], *options)
    return Labelled(kgcal, before, after, options, stderr)


def new_labels(kgcal: Kgcal, folder: Path) -> Path:
    """Write wrong objects for forty validation subjects to a file."""
    lines = (kgcal.home / "datasets" / "family-300-0" / "valid.txt").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    wrong = [[s, p, rows[-i][2], "-1"] for i, (s, p, _, _) in enumerate(rows[:40], start=1)]
    path = folder / "new.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in wrong))
    return path


def recalibrated(kgcal: Kgcal, folder: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Run `kgcal recalibrate`, which must succeed. Return its results and its standard error."""
    target = folder / "recalibrated.json"
    done = kgcal("recalibrate", *options, "--json", str(target))
    assert done.returncode == 0, done.stderr
    return json.loads(target.read_text()), done.stderr


def calibrators(kgcal: Kgcal, run_id: str) -> list[Any]:
    """Return the calibrators of a calibrate run, in their order."""
    return [CALIBRATOR.read(model_folder(kgcal, model.model_id)) for model in models_of(kgcal, run_id)]


def test_new_labels_adopt_the_model_and_re_use_no_stage(labelled: Labelled) -> None:
    assert labelled.after["reused"] == []
    trained = labelled.before["runs"]["train"]
    assert tags_of_run(labelled.kgcal, labelled.after["runs"]["train"]).adopted == trained
    assert f"adopted the model of run {trained}" in labelled.stderr
    client = client_of(labelled.kgcal)
    losses = [client.get_metric_history(run["runs"]["train"], "loss") for run in (labelled.before, labelled.after)]
    assert [point.value for point in losses[0]] == [point.value for point in losses[1]]


@pytest.mark.parametrize(
    ("stage", "name", "value"),
    [
        ("corrupt", "calibration_strategy", {"uniform": 1.0}),
        ("calibrate", "calibrators", ["platt"]),
        ("calibrate", "base_rate", 0.3),
        ("evaluate", "bins", 5),
    ],
)
def test_only_the_settings_that_are_given_change(labelled: Labelled, stage: str, name: str, value: object) -> None:
    assert (tags_of_run(labelled.kgcal, labelled.after["runs"][stage]).config or {})[name] == value


def test_new_labels_join_the_validation_split(labelled: Labelled) -> None:
    counts = labelled.run(labelled.after, "prepare").data.metrics
    labels = read_labels(labelled.kgcal.home.parent / "new.tsv")
    assert counts["labels_rows"] == (~for_exam(labels, 0.25)).sum()  # the others belong to the exam
    assert counts["valid_negatives"] > labelled.run(labelled.before, "prepare").data.metrics["valid_negatives"]


def test_new_labels_change_what_was_fitted_and_nothing_else(labelled: Labelled) -> None:
    before, after = (results["metrics"] for results in (labelled.before, labelled.after))
    assert after["base_rate"]["brier"] != before["base_rate"]["brier"]
    assert after["uncalibrated"] == before["uncalibrated"]  # the same model, the same test
    assert after["ground_truth"]["platt"] != before["ground_truth"]["platt"]


def test_no_path_is_recorded(labelled: Labelled) -> None:
    recorded = json.dumps([(run.data.tags, run.data.params) for run in all_runs(labelled.kgcal)])
    assert "new.tsv" in recorded
    assert str(labelled.kgcal.home.parent) not in recorded


def test_the_same_labels_again_re_use_every_stage(labelled: Labelled, tmp_path: Path) -> None:
    again, _ = recalibrated(labelled.kgcal, tmp_path, *labelled.options)  # of `latest`, which has these labels
    assert again["runs"] == labelled.after["runs"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--labels", "/nosuch.tsv"), "cannot be read"),
        (("--device", "cuda:7"), "the device 'cuda:7' is not available here"),
        (("--instead",), "--instead needs --labels FILE: the labelled triples that replace the validation split"),
        (("--base-rate", "1.5"), "base_rate is 1.5: it must be above 0 and below 1"),
        (("{pipeline}", "--model", "{train}"), "the run to recalibrate is named twice"),
    ],
)
def test_a_mistake_is_reported_before_any_run_is_opened(
    first: tuple[Kgcal, dict], options: tuple[str, ...], message: str
) -> None:
    kgcal, results = first
    ids = {"pipeline": results["pipeline"], "train": results["runs"]["train"]}
    count = len(all_runs(kgcal))
    done = kgcal("recalibrate", *(option.format(**ids) for option in options))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(all_runs(kgcal)) == count


def test_fitted_calibrators_are_moved_to_another_base_rate(first: tuple[Kgcal, dict], moved: dict[str, Any]) -> None:
    kgcal, before = first
    assert all(moved["runs"][stage] == before["runs"][stage] for stage in ("prepare", "train", "corrupt", "score"))
    assert moved["runs"]["calibrate"] != before["runs"]["calibrate"]
    assert tags_of_run(kgcal, moved["runs"]["calibrate"]).moved == before["runs"]["calibrate"]
    old, new = (calibrators(kgcal, results["runs"]["calibrate"]) for results in (before, moved))
    assert [bound.label for bound in old] == ["uncalibrated", "base_rate", "ground_truth.platt", "synthetic.platt"]
    assert [bound.at(0.1).to_json() for bound in old] == [bound.to_json() for bound in new]


def test_with_refit_calibrators_are_fitted_at_the_new_base_rate(first: tuple[Kgcal, dict], tmp_path: Path) -> None:
    kgcal, before = first
    refitted, _ = recalibrated(kgcal, tmp_path, before["pipeline"], "--base-rate", "0.1", "--refit")
    old, fitted = (calibrators(kgcal, results["runs"]["calibrate"]) for results in (before, refitted))
    assert fitted[2].to_json() == old[2].to_json()  # labelled negatives have a base rate of their own
    assert fitted[3].base_rate == pytest.approx(0.1)
    assert fitted[3].to_json() != old[3].at(0.1).to_json()


def test_force_takes_over_what_calibrators_were_fitted_on(
    first: tuple[Kgcal, dict], moved: dict[str, Any], tmp_path: Path
) -> None:
    kgcal, before = first
    forced, _ = recalibrated(kgcal, tmp_path, before["pipeline"], "--base-rate", "0.1", "--force")
    assert all(forced["runs"][stage] == before["runs"][stage] for stage in ("corrupt", "score"))
    assert forced["runs"]["calibrate"] != moved["runs"]["calibrate"]
