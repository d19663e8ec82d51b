"""`--candidates`: calibration to triples whose labels are hidden, from the command line to probabilities."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgcore.config import CalibrateConfig
from tasks.stages.calibrate import move_calibrators
from tasks.stages.running import StageRef
from tasks.tracking.artifacts import CALIBRATOR
from tests.conftest import use_home
from tests.pipeline.command import ALL_STAGES, Kgcal, model_folder, models_of, runs_of, tags_of, tags_of_run
from tests.pipeline.finished import finished

TINY = ("--size", "600", "--k", "16", "--epochs", "20", "--batch-size", "128", "--match-replicates", "20")
TINY += ("--calibrators", "smoothed_isotonic,beta", "--calibration-eta", "3", "--bootstrap-replicates", "50")


@dataclass(frozen=True)
class Made:
    """A pipeline with candidates: the validation triples without their labels.

    file     the candidates
    results  of the pipeline, with the stated base rate .5
    stdout   of the pipeline
    """

    kgcal: Kgcal
    file: Path
    results: dict[str, Any]

    def again(self, *options: str) -> dict[str, Any]:
        """Recalibrate the model, and return the results."""
        target = self.file.parent / "again.json"
        done = self.kgcal("recalibrate", *options, "--json", str(target))
        assert done.returncode == 0, done.stderr
        return json.loads(target.read_text())

    def calibrators(self, run_id: str) -> dict[str, Any]:
        """Return the calibrators of a calibrate run by their label."""
        found = [CALIBRATOR.read(model_folder(self.kgcal, one.model_id)) for one in models_of(self.kgcal, run_id)]
        return {bound.label: bound for bound in found}


def candidates_of(kgcal: Kgcal, most: int | None = None) -> Path:
    """Write the first validation triples to a file without their labels; None: all of them."""
    [valid] = (kgcal.home / "datasets").glob("*/valid.txt")
    rows = dict.fromkeys(tuple(line.split("\t")[:3]) for line in valid.read_text().splitlines())
    file = kgcal.home.parent / "mine.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in list(rows)[:most]))
    return file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("candidates")
    kgcal = Kgcal(folder)
    assert kgcal("prepare", "--size", "600").returncode == 0
    file = candidates_of(kgcal)
    return Made(kgcal, file, kgcal.results(*TINY, "--candidates", str(file), "--base-rate", "0.5"))


def test_the_pipeline_has_the_stage_and_its_calibrators(made: Made) -> None:
    assert list(made.results["runs"]) == [name for name in ALL_STAGES if name not in ("choose", "evidence")]
    metrics = made.results["metrics"]
    assert set(metrics["candidates"]) == set(metrics["synthetic"]) == {"smoothed_isotonic", "beta"}
    assert metrics["candidates"]["beta"]["brier"] < metrics["ground_truth"]["beta"]["brier"] + 0.006
    bound = made.calibrators(made.results["runs"]["calibrate"])
    assert bound["candidates.beta"].mixture.source == "mine.tsv"
    assert str(bound["candidates.beta"].rate) == "0.5, stated"
    assert bound["synthetic.beta"].mixture is None
    assert tags_of_run(made.kgcal, made.results["runs"]["calibrate"]).inputs["match"] == made.results["runs"]["match"]


def test_the_probabilities_are_close_to_those_from_labels(made: Made) -> None:
    bound = made.calibrators(made.results["runs"]["calibrate"])
    to_candidates, to_labels = (bound[f"{kind}.smoothed_isotonic"] for kind in ("candidates", "ground_truth"))
    scores = np.quantile(to_candidates.support.band.scores, np.linspace(0.1, 0.9, 21))
    q, labelled = (one.predict(scores, one.model) for one in (to_candidates, to_labels))
    assert np.abs(q - labelled).mean() < 0.1
    low, high = to_candidates.interval(scores, q)
    assert ((low <= labelled) & (labelled <= high)).mean() > 0.9


def test_the_results_and_the_report_say_what_they_are_about(made: Made) -> None:
    [note] = [note for note in made.results["notes"] if "The rows `candidates`" in note]
    assert "candidates in mine.tsv" in note
    html = Path(made.results["report"]).read_text()
    for text in ("<h2>The candidates</h2>", "share of the mistakes", "calibrated to candidates"):
        assert text in html


@pytest.mark.long
def test_a_base_rate_that_is_not_stated_is_estimated(made: Made) -> None:
    results = made.again("--candidates", str(made.file), "--base-rate", "0.5")
    assert results["runs"] == made.results["runs"]
    single = made.kgcal("match", "--candidates", str(made.file), "--match-width", "0.9", "--match-replicates", "20")
    assert single.returncode == 0, single.stderr
    done = made.kgcal("calibrate", "--candidates", single.stdout.strip(), "--calibrators", "smoothed_isotonic")
    assert done.returncode == 0, done.stderr
    bound = made.calibrators(done.stdout.strip())["candidates.smoothed_isotonic"]
    assert bound.rate.origin == "estimated"
    assert bound.rate.low <= 0.5 <= bound.rate.high
    run = runs_of(made.kgcal, "calibrate")[-1]
    assert tags_of(run).base_rate == str(bound.rate)
    assert run.data.params["base_rate_is"] == "estimated"
    assert float(run.data.params["base_rate"]) == bound.base_rate


def test_candidates_that_do_not_determine_the_base_rate_end_the_run(made: Made) -> None:
    before = len(runs_of(made.kgcal, "corrupt"))
    done = made.kgcal("run", *TINY, "--candidates", str(made.file), "--match-width", "0.001")
    assert done.returncode == 2
    assert "these candidates do not determine the base rate (" in done.stderr
    assert "): state it, or label " in done.stderr
    assert "Traceback" not in done.stderr
    assert len(runs_of(made.kgcal, "corrupt")) == before


@pytest.mark.long
def test_one_stage_takes_a_file_and_a_split(tmp_path: Path) -> None:
    """On a smaller graph, because the stage then estimates the mistakes with its default settings."""
    kgcal, results = finished(tmp_path)
    made = Made(kgcal, candidates_of(kgcal, 60), results)
    for candidates in (str(made.file), "test"):
        done = made.kgcal("calibrate", "--candidates", candidates, "--base-rate", "0.5", "--calibrators", "platt")
        assert done.returncode == 0, done.stderr
        assert "candidates.platt" in made.calibrators(done.stdout.strip())


def test_the_shift_keeps_the_candidates(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    use_home(made.kgcal.home, monkeypatch)
    moved = move_calibrators(StageRef("calibrate", made.results["runs"]["calibrate"]), CalibrateConfig(base_rate=0.1))
    assert tags_of_run(made.kgcal, moved.run_id).inputs["match"] == made.results["runs"]["match"]
    bound = made.calibrators(moved.run_id)["candidates.beta"]
    assert (bound.base_rate, bound.fitted_at, bound.mixture.source) == (0.1, 0.5, "mine.tsv")


def test_candidates_answer_questions(made: Made) -> None:
    row = made.file.read_text().splitlines()[0].split("\t")
    options = ("--model", made.results["pipeline"], "--calibrator", "candidates.beta")
    for command in (("predict", *row), ("explain", *row)):
        done = made.kgcal(*command, *options)
        assert done.returncode == 0, done.stderr
        assert "candidates.beta" in done.stdout.replace(", ", ".").replace("candidates beta", "candidates.beta")


@pytest.mark.long
def test_an_interval_of_the_base_rate_reaches_the_probabilities(made: Made) -> None:
    results = made.again(made.results["pipeline"], "--base-rate", "0.01:0.05")
    assert results["runs"]["match"] == made.results["runs"]["match"]
    bound = made.calibrators(results["runs"]["calibrate"])["candidates.smoothed_isotonic"]
    assert str(bound.rate) == "0.0225 [0.01, 0.05], stated"
    assert tags_of_run(made.kgcal, results["runs"]["evaluate"]).base_rate == str(bound.rate)
    assert (results["base_rate"], results["base_rate_low"], results["base_rate_high"]) == (bound.base_rate, 0.01, 0.05)
    assert "Base rate: 0.0225 [0.01, 0.05], stated." in Path(results["report"]).read_text()
    done = made.kgcal("calibrate", "--base-rate", "0.01:0.05", "--calibrators", "platt")
    assert done.returncode == 0, done.stderr
    config = tags_of_run(made.kgcal, done.stdout.strip()).config
    assert config is not None
    assert (config["base_rate_low"], config["base_rate_high"]) == (0.01, 0.05)
    wrong = made.kgcal("recalibrate", "--base-rate", "0.5:0.1")
    assert wrong.returncode == 2
    assert "LOW:HIGH, such as 0.01:0.05" in wrong.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--candidates", "nowhere.tsv"), "nowhere.tsv cannot be read"),
        (("--candidates", "train"), "train is of an unknown kind"),
    ],
)
def test_a_mistake_is_reported_before_anything_runs(made: Made, options: tuple[str, ...], message: str) -> None:
    before = len(runs_of(made.kgcal, "pipeline"))
    done = made.kgcal("run", *TINY, *options)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(runs_of(made.kgcal, "pipeline")) == before
