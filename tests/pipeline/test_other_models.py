"""Further models whose scores are evidence: `kgcal run --other-models`, and every command that asks its calibrators."""

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest

import kgcore
from kgcore.storage.tables import read_predictions
from tasks.tracking.artifacts import CALIBRATOR
from tests.pipeline.command import Kgcal, client_of, model_folder, models_of, runs_of, tags_of, tags_of_run

pytestmark = pytest.mark.long
SETTINGS = ("--size", "700", "--k", "16", "--epochs", "20", "--batch-size", "128")
SEES_EVIDENCE = ("--calibrators", "beta,boosted_trees")
LABEL = "ground_truth.boosted_trees"
OF_OTHERS = re.compile(r"model_(\d)_")


@dataclass(frozen=True)
class Made:
    """A pipeline with the scores of two further models: one that it trained, and one of an earlier pipeline."""

    kgcal: Kgcal
    earlier: dict[str, Any]
    results: dict[str, Any]

    def triples(self) -> pd.DataFrame:
        """Return the names of the first test triples."""
        [test] = (self.kgcal.home / "datasets").glob("*/test.txt")
        rows = [line.split("\t")[:3] for line in test.read_text().splitlines()[:40]]
        return pd.DataFrame(rows, columns=["subject", "predicate", "object"])

    def answers(self) -> pd.DataFrame:
        """Ask the newest calibrators of the pipeline for the first test triples."""
        graph = self.kgcal.home.parent
        file, target = graph / "some.csv", graph / "answers.parquet"
        self.triples().to_csv(file, index=False)
        asked = ("predict", str(file), "-o", str(target), "--model", self.results["runs"]["calibrate"])
        done = self.kgcal(*asked, "--calibrator", LABEL)
        assert done.returncode == 0, done.stderr
        return pd.read_parquet(target)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    kgcal = Kgcal(tmp_path_factory.mktemp("others"))
    earlier = kgcal.results(*SETTINGS, "--model", "complex", "--calibrators", "beta")
    return Made(kgcal, earlier, kgcal.results(*SETTINGS, *SEES_EVIDENCE, "--other-models", "distmult, latest"))


def test_the_further_models_are_trained_or_those_of_the_runs(made: Made) -> None:
    evidence = tags_of_run(made.kgcal, made.results["runs"]["evidence"])
    by_run = {run.info.run_id: tags_of(run).config for run in runs_of(made.kgcal, "train")}
    inputs = evidence.inputs
    assert inputs["train.2"] == made.earlier["runs"]["train"]
    first, second = by_run[inputs["train"]], by_run[inputs["train.1"]]
    assert (first["model"], second["model"]) == ("transe", "distmult")
    assert (first["k"], second["k"]) == (16, 100)  # a model that is named has the settings of the preset
    [pipeline] = [run for run in runs_of(made.kgcal, "pipeline") if "other_models" in run.data.params]
    assert pipeline.data.params["other_models"] == f"distmult,train:{made.earlier['runs']['train']}"


def test_the_report_says_what_the_further_models_add(made: Made) -> None:
    page = (made.kgcal.home / "reports" / made.results["pipeline"] / "report.html").read_text()
    assert "other_scores" in re.findall(r"<tr><td>(\w+)</td>", page[page.index("What evidence adds") :])


def test_the_answers_are_the_probabilities_of_the_pipeline(made: Made) -> None:
    answers = made.answers()
    [folder] = made.kgcal.home.glob(f"artifacts/{made.results['runs']['classify']}/artifacts")
    measured = read_predictions(folder / "predictions.parquet").probabilities[LABEL]
    assert answers["probability"].notna().all()
    assert np.isin(answers["probability"].to_numpy(), measured).mean() > 0.9  # some test rows are not measured


def test_contributions_name_the_further_models_and_add_up(made: Made) -> None:
    triple, target = made.triples().iloc[0].tolist(), made.kgcal.home.parent / "why.json"
    done = made.kgcal("explain", *triple, "-o", str(target), "--calibrator", LABEL)
    assert done.returncode == 0, done.stderr
    found = json.loads(target.read_text())
    numbers = {of.group(1) for row in found["contributions"] if (of := OF_OTHERS.match(row["feature"]))}
    assert numbers == {"2", "3"}
    total = sum(row["log_odds"] for row in found["contributions"])
    assert total == pytest.approx(np.log(found["probability"] / (1 - found["probability"])), abs=1e-9)


def test_the_logged_model_and_the_champion_answer_alone(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    kgcal, expected = made.kgcal, made.answers()
    models = models_of(kgcal, made.results["runs"]["calibrate"])
    [model_id] = [model.model_id for model in models if model.tags["label"] == made.results["answers"]]
    assert CALIBRATOR.read(model_folder(kgcal, model_id)).label == LABEL
    mlflow.set_tracking_uri(f"sqlite:///{kgcal.home}/mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{kgcal.home}/mlflow.db")
    loaded = mlflow.pyfunc.load_model(f"models:/{model_id}").predict(made.triples())
    np.testing.assert_array_equal(loaded["probability"], expected["probability"])

    promoted = kgcal("promote")
    assert promoted.returncode == 0, promoted.stderr
    version = client_of(kgcal).get_model_version_by_alias("kgcal-family", "champion")
    folder = model_folder(kgcal, version.tags["kgcal.model_id"])
    bound = CALIBRATOR.read(folder)
    assert bound.label == LABEL
    assert len(bound.embedding_models) == 3
    assert "further model" in version.description
    alone = kgcore.load(folder).predict(made.triples())
    np.testing.assert_array_equal(alone["probability"], expected["probability"])


def test_recalibration_keeps_the_further_models(made: Made) -> None:
    kgcal, calibrate = made.kgcal, made.results["runs"]["calibrate"]
    moved = kgcal("recalibrate", calibrate, "--base-rate", "0.2")
    assert moved.returncode == 0, moved.stderr
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    labels = kgcal.home.parent / "labels.tsv"
    rows = [line.split("\t")[:3] for line in test.read_text().splitlines()[:200]]
    crossed = ((s, p, other, str(n % 2)) for n, ((s, p, _), (_, _, other)) in enumerate(pairwise(rows)))
    labels.write_text("".join("\t".join(row) + "\n" for row in crossed))  # new triples
    again = kgcal("recalibrate", calibrate, "--labels", str(labels))
    assert again.returncode == 0, again.stderr
    before = tags_of_run(kgcal, calibrate).inputs
    for run in runs_of(kgcal, "calibrate")[-2:]:
        inputs = tags_of(run).inputs
        assert [inputs[f"train.{number}"] for number in (1, 2)] == [before["train.1"], before["train.2"]]


def test_the_stage_alone_takes_runs(made: Made) -> None:
    runs, other = made.results["runs"], made.earlier["runs"]["train"]
    options = ("--scores", runs["score"], "--model", runs["train"], "--evidence", "score,degrees")
    done = made.kgcal("evidence", *options, "--other-models", other)
    assert done.returncode == 0, done.stderr
    again = made.kgcal("evidence", *options)
    assert again.stdout != done.stdout
    assert tags_of_run(made.kgcal, done.stdout.strip()).inputs["train.1"] == other
    assert "train.1" not in tags_of_run(made.kgcal, again.stdout.strip()).inputs


def test_what_cannot_work_is_refused_with_a_sentence(made: Made) -> None:
    kgcal = made.kgcal
    alone, beside = ("--calibrators", "beta"), "--other-models"
    earlier, own = (results["runs"]["train"] for results in (made.earlier, made.results))
    wrong = {
        (beside, "transformer"): "other_models has 'transformer', which is no run and no model: unknown model",
        (beside, "f" * 32): "f" * 32,
        (beside, own): "names the same model twice, or the model itself",
        (*alone, beside, "distmult"): "needs a calibrator that sees evidence",
        (beside, earlier, "--graph-seed", "5"): "must have the same training triples",
    }
    asked = {(*SETTINGS, *options): message for options, message in wrong.items()}
    asked[(beside, "transe")] = "other_models has transe, which is the model itself: name another model"
    for options, message in asked.items():
        done = kgcal("run", *options)
        assert done.returncode == 2, done.stdout
        assert message in " ".join(done.stderr.split())
