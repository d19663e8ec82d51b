"""`kgcal recalibrate`, models that are adopted instead of trained again, and the ways to name an upstream run."""

import json
from pathlib import Path

import mlflow
import pytest

from kgcore.calibration.bound import BoundCalibrator
from tests.conftest import tiny_options
from tests.pipeline.conftest import Kgcal, all_runs, client_of


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    kgcal = Kgcal(tmp_path_factory.mktemp("first"))
    return kgcal, kgcal.results(
        *tiny_options(), "--calibration-strategy", "uniform", "--calibrators", "platt", "--bins", "5"
    )


def new_labels(kgcal: Kgcal, folder: Path) -> Path:
    """Wrong objects for forty validation subjects, as a file."""
    lines = (kgcal.home / "datasets" / "family-300-0" / "valid.txt").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    wrong = [[s, p, rows[-i][2], "-1"] for i, (s, p, _, _) in enumerate(rows[:40], start=1)]
    path = folder / "new.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in wrong))
    return path


def test_new_labels_and_a_new_base_rate_train_nothing(first: tuple[Kgcal, dict], tmp_path: Path) -> None:
    kgcal, before = first
    target, labels = tmp_path / "out.json", new_labels(kgcal, tmp_path)
    options = ("--labels", str(labels), "--base-rate", "0.3", "--json", str(target))
    done = kgcal("recalibrate", "--model", before["runs"]["train"], *options)
    assert done.returncode == 0, done.stderr
    results = json.loads(target.read_text())
    assert results["reused"] == []
    for stage, name, value in (
        ("corrupt", "strategy", {"uniform": 1.0}),
        ("calibrate", "calibrators", ["platt"]),
        ("calibrate", "base_rate", 0.3),
        ("evaluate", "bins", 5),
    ):  # as it was, but for what was asked for
        run = client_of(kgcal).get_run(results["runs"][stage])
        assert json.loads(run.data.tags["kgcal.config"])[name] == value
    assert f"adopted the model of run {before['runs']['train']}" in done.stderr
    assert results["metrics"]["base_rate"]["brier"] != before["metrics"]["base_rate"]["brier"]
    assert results["metrics"]["uncalibrated"] == before["metrics"]["uncalibrated"]  # the same model, the same test
    fitted = results["metrics"]["ground_truth"]["platt"]
    assert fitted != before["metrics"]["ground_truth"]["platt"]
    client = client_of(kgcal)
    counts = client.get_run(results["runs"]["prepare"]).data.metrics
    assert counts["labels_rows"] == 40
    assert counts["valid_negatives"] > client.get_run(before["runs"]["prepare"]).data.metrics["valid_negatives"]
    losses = [client.get_metric_history(run["runs"]["train"], "loss") for run in (before, results)]
    assert [p.value for p in losses[0]] == [p.value for p in losses[1]]
    assert str(tmp_path) not in json.dumps([(run.data.tags, run.data.params) for run in all_runs(kgcal)])

    done = kgcal("recalibrate", *options)  # of the latest, which has these labels already
    assert done.returncode == 0, done.stderr
    again = json.loads(target.read_text())
    assert again["runs"] == results["runs"]

    count = len(all_runs(kgcal))
    for options, said in (
        (("--labels", str(tmp_path / "nosuch.tsv")), "cannot be read"),
        (("--device", "cuda:7"), "the device 'cuda:7' is not available here"),
        (("--instead",), "name a file with --labels"),
        (("--base-rate", "1.5"), "base_rate is 1.5: it must be above 0 and below 1"),
    ):
        done = kgcal("recalibrate", *options)
        assert done.returncode == 2
        assert said in done.stderr
    assert len(all_runs(kgcal)) == count


def test_fitted_calibrators_are_told_about_another_base_rate(first: tuple[Kgcal, dict], tmp_path: Path) -> None:
    kgcal, before = first
    target = tmp_path / "out.json"
    options = ("recalibrate", before["pipeline"], "--json", str(target))
    done = kgcal(*options, "--base-rate", "0.1")
    assert done.returncode == 0, done.stderr
    moved = json.loads(target.read_text())
    assert all(moved["runs"][stage] == before["runs"][stage] for stage in ("prepare", "train", "corrupt", "score"))
    assert moved["runs"]["calibrate"] != before["runs"]["calibrate"]
    old, new = (calibrators(kgcal, results["runs"]["calibrate"]) for results in (before, moved))
    assert [bound.label for bound in old] == ["uncalibrated", "base_rate", "ground_truth.platt", "synthetic.platt"]
    assert [bound.at(0.1).to_json() for bound in old] == [bound.to_json() for bound in new]
    twice = kgcal(*options, "--base-rate", "0.1", "--model", before["runs"]["train"])
    assert twice.returncode == 2
    assert "the run to recalibrate is named twice" in twice.stderr
    done = kgcal(*options, "--base-rate", "0.1", "--refit")
    assert done.returncode == 0, done.stderr
    fitted = calibrators(kgcal, json.loads(target.read_text())["runs"]["calibrate"])
    assert fitted[2].to_json() == old[2].to_json()  # of labelled negatives, which know of no base rate
    assert fitted[3].base_rate == pytest.approx(0.1)
    assert fitted[3].to_json() != new[3].to_json()


def calibrators(kgcal: Kgcal, run_id: str) -> list[BoundCalibrator]:
    """What a calibrate run made, in order."""
    mlflow.set_tracking_uri(f"sqlite:///{kgcal.home}/mlflow.db")
    made = sorted(client_of(kgcal).get_run(run_id).outputs.model_outputs, key=lambda output: output.step)
    folders = [mlflow.artifacts.download_artifacts(artifact_uri=f"models:/{output.model_id}") for output in made]
    return [BoundCalibrator.from_json(json.loads((Path(folder) / "calibrator.json").read_text())) for folder in folders]


def test_a_run_with_other_held_out_files_adopts_the_model(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    rows = [f"e{i % 30}\tr{i % 2}\te{(i * 7 + i // 30) % 30}" for i in range(600)]
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, part in (("train", rows[:400]), ("valid", rows[400:500]), ("test", rows[500:])):
        (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
    options = ("--dataset", str(folder), "--k", "8", "--epochs", "3")
    before = kgcal.results(*options)
    (folder / "valid.txt").write_text("\n".join(rows[400:480]) + "\n")
    after = kgcal.results(*options)
    client = client_of(kgcal)
    assert client.get_run(after["runs"]["train"]).data.tags["kgcal.adopted"] == before["runs"]["train"]
    fingerprints = [
        {model.tags["fingerprint"] for model in client.search_logged_models(["1"]) if model.source_run_id == run}
        for run in (before["runs"]["train"], after["runs"]["train"])
    ]
    assert len(fingerprints[0]) == 1
    assert fingerprints[0] == fingerprints[1]
    forced = kgcal.results(*options, "--force")
    assert "kgcal.adopted" not in client.get_run(forced["runs"]["train"]).data.tags
    (folder / "train.txt").write_text("\n".join(rows[:399]) + "\n")
    other = kgcal.results(*options)
    assert "kgcal.adopted" not in client.get_run(other["runs"]["train"]).data.tags


def test_an_upstream_run_is_named_by_what_came_from_it_or_by_a_model(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    client = client_of(kgcal)
    mlflow.set_tracking_uri(f"sqlite:///{kgcal.home}/mlflow.db")  # where MLflow looks `models:/` up
    [calibrator, *_] = client.get_run(results["runs"]["calibrate"]).outputs.model_outputs
    [base] = client.get_run(results["runs"]["train"]).outputs.model_outputs
    made = client.create_model_version(
        client.create_registered_model("mine").name,
        f"models:/{calibrator.model_id}",
        results["runs"]["calibrate"],
        model_id=calibrator.model_id,
    )
    client.set_registered_model_alias("mine", "best", made.version)
    settings = {"calibrate": ("--calibrators", "platt")}  # as the pipeline's, so that the stage is reused
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
    ("named", "said"),
    [
        ("models:/m-nosuch", "there is no model models:/m-nosuch in sqlite"),
        ("models:/nosuch@champion", "there is no model models:/nosuch@champion in sqlite"),
        ("models:/nosuch/1", "there is no model models:/nosuch/1 in sqlite"),
        ("runs:/nosuch/scores.parquet", "there is no MLflow run 'nosuch'"),
    ],
)
def test_what_is_not_there_is_told(first: tuple[Kgcal, dict], named: str, said: str) -> None:
    kgcal, _ = first
    done = kgcal("calibrate", "--scores", named)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_of_other_training_triples_is_refused(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    other = kgcal.results(*tiny_options(), "--graph-seed", "1")
    done = kgcal("score", "--model", results["runs"]["train"], "--corruptions", other["pipeline"])
    assert done.returncode == 2
    assert "they do not belong together" in done.stderr


def test_force_takes_over_what_calibrators_were_fitted_on(first: tuple[Kgcal, dict], tmp_path: Path) -> None:
    kgcal, before = first
    options = ("recalibrate", before["pipeline"], "--base-rate", "0.3", "--force")
    found = []
    for number in range(2):
        target = tmp_path / f"{number}.json"
        done = kgcal(*options, "--json", str(target))
        assert done.returncode == 0, done.stderr
        found.append(json.loads(target.read_text())["runs"])
    assert all(runs[stage] == before["runs"][stage] for runs in found for stage in ("corrupt", "score"))
    assert found[0]["calibrate"] != found[1]["calibrate"]
