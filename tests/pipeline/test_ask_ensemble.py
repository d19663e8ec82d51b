"""An ensemble as the model that answers: predict, discover, explain, pyfunc, promotion and serve, on a real store."""

import json
from dataclasses import dataclass
from pathlib import Path

import mlflow
import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest

import kgcore
from kgcore.storage.folders import read_graph
from tasks.jobs.find_model import Ask
from tasks.serving.model import Served
from tests.conftest import tiny_options, use_home
from tests.pipeline.command import Kgcal, client_of, model_folder, models_of, runs_of

pytestmark = pytest.mark.long

NAMES = ["subject", "predicate", "object"]


@dataclass(frozen=True)
class Pooled:
    """A home with two models and their ensemble.

    run   id of the ensemble's run
    test  the labelled test triples without their labels
    """

    kgcal: Kgcal
    run: str
    graph: str
    test: pd.DataFrame

    def models(self) -> dict[str, str]:
        """Return label -> id of the ensemble's LoggedModel."""
        return {model.tags["label"]: model.model_id for model in models_of(self.kgcal, self.run)}

    def evaluated(self) -> pd.DataFrame:
        """Return the test predictions that the run of the ensemble logged, with names."""
        client = client_of(self.kgcal)
        graph = read_graph(Path(client.download_artifacts(self.graph, "graph")))
        frame = pd.read_parquet(client.download_artifacts(self.run, "predictions.parquet"))
        return frame.assign(**graph.names_of(frame[["s", "p", "o"]].to_numpy()))

    def predicted(self, *options: str) -> pd.DataFrame:
        """Return the answers of `kgcal predict` for the test triples."""
        source, target = self.kgcal.home / "asked.parquet", self.kgcal.home / "answered.parquet"
        self.test.to_parquet(source)
        done = self.kgcal("predict", str(source), "-o", str(target), "--at-least", "0", *options)
        assert done.returncode == 0, done.stderr
        return pd.read_parquet(target)


@pytest.fixture(scope="module")
def pooled(tmp_path_factory: pytest.TempPathFactory) -> Pooled:
    kgcal = Kgcal(tmp_path_factory.mktemp("ask"))
    # calibrators of members and pools, and enough epochs that the pool's calibration error is within the tolerance
    options = (*tiny_options(), "--epochs", "60", "--calibrators", "smoothed_isotonic,beta")
    first, second = (kgcal.results(*options, "--model", name) for name in ("transe", "distmult"))
    assert kgcal("ensemble", first["pipeline"], second["pipeline"]).returncode == 0
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    frame = pd.read_csv(test, sep="\t", names=[*NAMES, "label"], dtype=str)[NAMES]
    return Pooled(kgcal, runs_of(kgcal, "ensemble")[-1].info.run_id, first["runs"]["prepare"], frame)


def check_to_the_bit(answers: pd.DataFrame, evaluated: pd.DataFrame, label: str) -> None:
    both = evaluated.merge(answers, on=NAMES, suffixes=("_evaluated", ""))
    assert len(both) >= len(evaluated) > 500
    np.testing.assert_array_equal(both["probability"], both[f"q.{label}"])


@pytest.mark.parametrize("label", ["ground_truth.linear", "synthetic.log_odds"])
def test_the_test_file_has_the_probabilities_that_were_evaluated_to_the_bit(pooled: Pooled, label: str) -> None:
    evaluated = pooled.evaluated()
    answers = pooled.predicted("--model", pooled.run, "--calibrator", label)
    check_to_the_bit(answers, evaluated, label)
    assert answers["low"].notna().sum() == answers["score"].notna().sum()
    uri = f"models:/{pooled.models()[label]}"
    pd.testing.assert_frame_equal(pooled.predicted("--model", uri), answers, check_exact=True)
    mlflow.set_tracking_uri(f"sqlite:///{pooled.kgcal.home}/mlflow.db")
    by_pyfunc = mlflow.pyfunc.load_model(uri).predict(pooled.test, params={"at_least": 0})
    check_to_the_bit(by_pyfunc, evaluated, label)


def test_pairs_are_calibrated_with_the_evidence_of_all_members(pooled: Pooled) -> None:
    target = pooled.kgcal.home / "pairs.parquet"
    asked = ("--predicate", "born_in", "--top", "20", "--completeness", "0.9", "--model", pooled.run)
    done = pooled.kgcal("predict", *asked, "-o", str(target))
    assert done.returncode == 0, done.stderr
    pairs = pd.read_parquet(target)
    assert len(pairs) == 20
    assert pairs["probability"].is_monotonic_decreasing
    assert "population.boosted_trees" in done.stdout


def test_explanations_have_the_probability_of_predict(pooled: Pooled) -> None:
    file = pooled.kgcal.home / "explained.json"
    triple = pooled.test.iloc[0].tolist()
    answered = pooled.kgcal("predict", *triple, "--model", pooled.run)
    explained = pooled.kgcal("explain", *triple, "--model", pooled.run, "-o", str(file))
    assert explained.returncode == 0, explained.stderr
    made = json.loads(file.read_text())
    assert f"probability {made['probability']:.4f}" in answered.stdout
    assert made["calibrator"] == "ground_truth.linear"
    assert made["evidence"]["positives"] > 0


def test_the_best_ensemble_becomes_champion_and_answers_alone(pooled: Pooled, tmp_path: Path) -> None:
    promoted = pooled.kgcal("promote", "--dataset", "family")
    assert promoted.returncode == 0, promoted.stderr
    version = client_of(pooled.kgcal).get_model_version_by_alias("kgcal-family", "champion")
    champion = version.tags["kgcal.model_id"]
    [label] = [label for label, model_id in pooled.models().items() if model_id == champion]
    assert "ensemble of distmult transe" in promoted.stdout
    assert f"# family: distmult + transe, {label.replace('_', ' ')}" in version.description
    assert "pool of the probabilities of these models" in version.description
    assert "Base rate: " in version.description
    check_to_the_bit(pooled.predicted("--dataset", "family"), pooled.evaluated(), label)
    loaded = kgcore.load(model_folder(pooled.kgcal, champion))
    check_to_the_bit(loaded.predict(pooled.test, at_least=0), pooled.evaluated(), label)
    people, labels = pooled.test["subject"].unique()[:60], tmp_path / "labels.tsv"
    labels.write_text(
        "".join(f"{person}\tcousin_of\t{people[-1 - i]}\t{1 - i % 2 * 2}\n" for i, person in enumerate(people))
    )
    watched = pooled.kgcal("watch", "--dataset", "family", "--labels", str(labels), "--at-least", "10")
    assert watched.returncode == 0, watched.stderr
    metrics = runs_of(pooled.kgcal, "watch")[-1].data.metrics
    assert metrics["triples"] >= 10
    assert np.isfinite(metrics["psi"])


def test_a_server_answers_with_an_ensemble(pooled: Pooled, monkeypatch: pytest.MonkeyPatch) -> None:
    use_home(pooled.kgcal.home, monkeypatch)
    served = Served(Ask(pooled.run)).current
    assert served.found.label == "ground_truth.linear"
    assert served.sample is not None
    row = pooled.test.iloc[0]
    made = served.explainer(row["predicate"], None, "", False).explain(*row)
    assert made.probability == pooled.predicted("--model", pooled.run)["probability"].iloc[0]


def test_an_ensemble_cannot_be_recalibrated(pooled: Pooled) -> None:
    asked = pooled.kgcal.home / "asked.tsv"
    pooled.test.to_csv(asked, sep="\t", header=False, index=False)
    done = pooled.kgcal("base-rate", str(asked), "--model", pooled.run)
    assert done.returncode == 2
    assert "is an ensemble, fitted to the validation triples: name one of its members" in " ".join(done.stderr.split())
    done = pooled.kgcal("recalibrate", pooled.run, "--base-rate", "0.1")
    assert done.returncode == 2
    assert "is an ensemble of several models: name a run of one of them" in done.stderr
