"""Calibrators that see evidence: from the pipeline, with labels and candidates, to every command that asks them."""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.jobs.watch import watch
from kgcore.config import EvidenceConfig
from kgcore.storage.tables import read_predictions
from kgcore.wings.monitoring.drift import Check, DriftReference, check
from kgcore.wings.monitoring.two_samples import NewTriples
from tasks.jobs.find_model import Ask, locate, read_located
from tasks.tracking.artifacts import CALIBRATOR
from tests.conftest import use_home
from tests.pipeline.command import Kgcal, model_folder, models_of

pytestmark = pytest.mark.long
SETTINGS = ("--size", "700", "--k", "16", "--epochs", "20", "--batch-size", "128", "--match-replicates", "20")
ROUNDS = ("--combine-rounds", "2")
FORESTS = ("ground_truth.boosted_trees", "candidates.boosted_trees")


@dataclass(frozen=True)
class Made:
    """A pipeline with labelled negatives, and with the test split as candidates."""

    kgcal: Kgcal
    results: dict[str, Any]

    def answers(self, label: str, *options: str) -> pd.DataFrame:
        """Ask for the first test triples. Return the answers."""
        graph = self.kgcal.home.parent
        file, target = graph / "some.csv", graph / "answers.parquet"
        self.triples().to_csv(file, index=False)
        done = self.kgcal("predict", str(file), "-o", str(target), "--calibrator", label, *options)
        assert done.returncode == 0, done.stderr
        return pd.read_parquet(target)

    def triples(self) -> pd.DataFrame:
        """Return the names of the first test triples."""
        [test] = (self.kgcal.home / "datasets").glob("*/test.txt")
        rows = [line.split("\t")[:3] for line in test.read_text().splitlines()[:40]]
        return pd.DataFrame(rows, columns=["subject", "predicate", "object"])

    def new_labels(self, count: int) -> Path:
        """Write triples that are new, with labels at random."""
        [test] = (self.kgcal.home / "datasets").glob("*/test.txt")
        rows = [line.split("\t")[:3] for line in test.read_text().splitlines()[:count]]
        pairs = enumerate(pairwise(rows))
        drawn = [(s, p, other, "1" if number % 2 else "-1") for number, ((s, p, _), (_, _, other)) in pairs]
        file = self.kgcal.home.parent / f"labels-{count}.tsv"
        file.write_text("".join("\t".join(row) + "\n" for row in drawn))
        return file


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    kgcal = Kgcal(tmp_path_factory.mktemp("evidence"))
    return Made(kgcal, kgcal.results(*SETTINGS, *ROUNDS, "--candidates", "test", "--base-rate", "0.5"))


def test_evidence_is_better_than_the_score_alone(made: Made) -> None:
    metrics = made.results["metrics"]
    for kind in ("ground_truth", "candidates"):
        alone = metrics[kind]["smoothed_isotonic"]["brier"]
        assert metrics[kind]["boosted_trees"]["brier"] < alone - 0.005
    assert any(note.startswith("Brier scores of the calibrators on ground truth") for note in made.results["notes"])


def test_the_report_says_what_each_group_adds(made: Made) -> None:
    [page] = made.kgcal.home.glob("reports/*/report.html")
    shown = page.read_text()
    table = shown[shown.index("What evidence adds") : shown.index("Groups can say the same")]
    groups = [name for name in EvidenceConfig().evidence if name != "score"]
    assert re.findall(r"<tr><td>(\w+)</td>", table) == groups
    best = float(re.findall(r"<tr><td>paths</td><td>([-+.0-9]+) ", table)[0])
    assert best < -0.005  # relatives are paths


@pytest.mark.parametrize("label", FORESTS)
def test_the_answers_are_the_probabilities_of_the_pipeline(made: Made, label: str) -> None:
    answers = made.answers(label)
    [folder] = made.kgcal.home.glob(f"artifacts/{made.results['runs']['classify']}/artifacts")
    measured = read_predictions(folder / "predictions.parquet").probabilities[label]
    assert answers["probability"].notna().all()
    assert np.isin(answers["probability"].to_numpy(), measured).mean() > 0.9  # some test rows are not measured
    assert (answers["low"] <= answers["probability"]).all()
    assert (answers["probability"] <= answers["high"]).all()


@pytest.mark.parametrize("label", FORESTS)
def test_another_base_rate_shifts_the_log_odds(made: Made, label: str) -> None:
    before, after = (made.answers(label, *options)["probability"] for options in ((), ("--base-rate", "0.1")))
    moved = np.log(after / (1 - after)) - np.log(before / (1 - before))
    assert np.ptp(moved) < 1e-9


def test_contributions_add_up_to_the_log_odds(made: Made) -> None:
    triple, target = made.triples().iloc[0].tolist(), made.kgcal.home.parent / "why.json"
    done = made.kgcal("explain", *triple, "-o", str(target), "--calibrator", FORESTS[0])
    assert done.returncode == 0, done.stderr
    found = json.loads(target.read_text())
    total = sum(row["log_odds"] for row in found["contributions"])
    assert total == pytest.approx(np.log(found["probability"] / (1 - found["probability"])), abs=1e-9)
    assert "what adds to the log-odds" in done.stdout
    assert found["evidence"]["positives"] > 0


def test_a_calibrator_that_sees_evidence_answers_promotes_watches_and_moves(made: Made) -> None:
    kgcal, runs = made.kgcal, made.results["runs"]
    [model] = [m for m in models_of(kgcal, runs["calibrate"]) if m.tags["label"] == made.results["answers"]]
    first = CALIBRATOR.read(model_folder(kgcal, model.model_id))
    assert first.label in FORESTS
    assert first.combined is not None
    assert first.combined.kind == "stack"
    promoted = kgcal("promote")
    assert promoted.returncode == 0, promoted.stderr
    assert "ground truth.boosted trees" in promoted.stdout
    watched = kgcal("watch", "--dataset", "family", "--labels", str(made.new_labels(400)))  # labels at random: drift
    assert watched.returncode == 0, watched.stderr
    assert "drift" in watched.stdout
    moved = kgcal("recalibrate", "--base-rate", "0.2")
    assert moved.returncode == 0, moved.stderr


def test_scores_of_new_triples_are_compared_with_the_same_scores_of_test(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made.kgcal("promote").returncode == 0
    use_home(made.kgcal.home, monkeypatch)
    origins = list[DriftReference]()

    def noted(probabilities: np.ndarray, new: NewTriples, origin: DriftReference, *settings: Any) -> Check:
        origins.append(origin)
        return check(probabilities, new, origin, *settings)

    monkeypatch.setattr("tasks.jobs.watch.check", noted)
    watch.fn(dataset="family", labels=str(made.new_labels(300)))
    [origin] = origins
    model = read_located(locate(Ask())).model
    scores = model.predict(model.graph.names_of(model.graph.test.triples))[0]
    np.testing.assert_array_equal(origin.test_scores, scores)


def test_one_stage_runs_alone(made: Made) -> None:
    runs = made.results["runs"]
    options = ("--candidates", runs["match"], "--base-rate", "0.5", *ROUNDS)
    again = made.kgcal("calibrate", "--scores", runs["score"], *options)
    assert again.returncode == 0, again.stderr
    assert runs["calibrate"] in again.stdout
    made_again = made.kgcal("evidence", "--scores", runs["score"], "--evidence", "score,degrees")
    assert made_again.returncode == 0, made_again.stderr


def test_the_command_line_lists_the_calibrators(made: Made, tmp_path: Path) -> None:
    wrong = made.kgcal("calibrate", "--calibrators", "forest", "-o", str(tmp_path / "x"))
    assert wrong.returncode != 0
    assert "boosted_trees" in made.kgcal("calibrate", "--help").stdout
