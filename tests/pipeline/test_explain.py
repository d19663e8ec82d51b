"""`kgcal explain`: the explanation of a run's or the champion's probability, from the command line to MLflow."""

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from kgcore.config import CalibrateConfig
from kgcore.storage.folders import read_graph
from tasks.stages.calibrate import move_calibrators
from tasks.stages.running import StageRef
from tests.conftest import use_home
from tests.pipeline.command import Kgcal, client_of, runs_of
from tests.pipeline.finished import finished

LABELS = ("ground_truth.beta", "synthetic.beta", "uncalibrated")


@dataclass(frozen=True)
class Trained:
    """A home with a finished pipeline on a small graph with labelled negatives.

    runs    stage -> run id
    triple  subject, predicate and object of its first test triple
    """

    kgcal: Kgcal
    runs: dict[str, str]
    triple: list[str]

    def explained(self, *options: str) -> dict:
        """Explain the triple, and return the explanation as JSON."""
        target = self.kgcal.home.parent / "explanation.json"
        done = self.kgcal("explain", *self.triple, "-o", str(target), *options)
        assert done.returncode == 0, done.stderr
        return json.loads(target.read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    kgcal, results = finished(tmp_path_factory.mktemp("explain"))
    runs = results["runs"]
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    return Trained(kgcal, runs, test.read_text().splitlines()[0].split("\t")[:3])


@pytest.fixture(scope="module")
def usual(trained: Trained) -> dict:
    """Explain the triple without options."""
    return trained.explained()


@pytest.fixture(scope="module")
def by_label(trained: Trained) -> dict[str, dict]:
    """Return label of a calibrator -> its explanation of the triple."""
    return {label: trained.explained("--calibrator", label) for label in LABELS}


@pytest.mark.parametrize("label", ["ground_truth.beta", "synthetic.smoothed_isotonic"])
def test_the_probability_is_that_of_predict_to_the_bit(trained: Trained, label: str) -> None:
    made = trained.explained("--calibrator", label, "--base-rate", "0.2", "--alternatives", "3")
    table, target = trained.kgcal.home.parent / "some.csv", trained.kgcal.home.parent / "answers.parquet"
    s, p, o = trained.triple
    rows = [(s, p, o), *((s, p, one["name"]) for one in made["objects"]["best"])]
    rows += [(one["name"], p, o) for one in made["subjects"]["best"]]
    pd.DataFrame(rows, columns=["subject", "predicate", "object"]).to_csv(table, index=False)
    done = trained.kgcal("predict", str(table), "-o", str(target), "--calibrator", label, "--base-rate", "0.2")
    assert done.returncode == 0, done.stderr
    answers = pd.read_parquet(target)[["score", "probability", "low", "high"]].to_numpy().tolist()
    shown = [made, *made["objects"]["best"], *made["subjects"]["best"]]
    assert [[one[name] for name in ("score", "probability", "low", "high")] for one in shown] == answers
    assert len(shown) == 7


@pytest.mark.parametrize("label", LABELS)
def test_the_evidence_is_the_sample_that_the_calibrator_was_fitted_on(
    trained: Trained, by_label: dict[str, dict], label: str
) -> None:
    made = by_label[label]
    scores = pd.read_parquet(client_of(trained.kgcal).download_artifacts(trained.runs["score"], "scores.parquet"))
    labelled = scores["origin"] == "labelled"
    used = (scores["label"] == 1) | ~labelled if label.startswith("synthetic") else labelled
    predicates = pd.read_parquet(
        client_of(trained.kgcal).download_artifacts(trained.runs["prepare"], "graph/predicates.parquet")
    )
    number = predicates.iloc[:, 0].tolist().index(trained.triple[1])
    own = scores[(scores["split"] == "valid") & used & (scores["p"] == number)]
    assert made["evidence"]["positives"] == (own["label"] == 1).sum()
    assert made["evidence"]["negatives"] == (own["label"] == 0).sum()
    assert made["evidence"]["positives_below"] == (own["score"][own["label"] == 1] < made["score"]).sum()


def test_the_ranks_are_those_of_the_rank_stage(trained: Trained, usual: dict) -> None:
    client = client_of(trained.kgcal)
    ranks = pd.read_parquet(client.download_artifacts(trained.runs["rank"], "ranks.parquet"))
    graph = read_graph(Path(client.download_artifacts(trained.runs["prepare"], "graph")))
    names = ["subject", "predicate", "object"]
    own = (graph.names_of(ranks[["s", "p", "o"]].to_numpy())[names] == trained.triple).all(axis=1)
    [found] = ranks[own.to_numpy()][["subject_rank", "object_rank"]].to_numpy().tolist()
    assert found == [usual["subjects"]["rank"], usual["objects"]["rank"]]
    assert usual["known"] == "test"


def test_the_terminal_shows_sentences_and_tables(trained: Trained, usual: dict) -> None:
    done = trained.kgcal("explain", *trained.triple)
    lines = done.stdout.splitlines()
    assert lines[0] == " ".join(trained.triple)
    assert lines[1 : 1 + len(usual["sentences"])] == [f"* {sentence}" for sentence in usual["sentences"]]
    assert "other base rates" in lines
    assert f"best alternatives: {trained.triple[0]} {trained.triple[1]} ?" in lines
    assert f"nearest known facts of {trained.triple[1]}" in lines


def test_mlflow_has_what_was_asked_and_what_came_out(trained: Trained) -> None:
    made = trained.explained("--model", trained.runs["calibrate"], "--facts", "2")
    run, client = runs_of(trained.kgcal, "explain")[-1], client_of(trained.kgcal)
    asked = run.data.params
    assert [asked[name] for name in ("subject", "predicate", "object", "facts")] == [*trained.triple, "2"]
    metrics = run.data.metrics
    assert metrics["score"] == made["score"]
    assert metrics["probability"] == made["probability"]
    assert (metrics["subject_rank"], metrics["object_rank"]) == (made["subjects"]["rank"], made["objects"]["rank"])
    logged = Path(client.download_artifacts(run.info.run_id, "explanation.json"))
    assert json.loads(logged.read_text()) == made
    html = Path(client.download_artifacts(run.info.run_id, "explanation.html")).read_text()
    assert run.info.run_id in html
    assert client.download_artifacts(run.info.run_id, "figures/curve.png")


def test_the_page_is_written(trained: Trained, tmp_path: Path) -> None:
    done = trained.kgcal("explain", *trained.triple, "-o", str(tmp_path / "why.html"))
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == f"explanation: {tmp_path / 'why.html'}"
    assert (tmp_path / "why.html").read_text().count("<svg") == 1


def test_a_moved_calibrator_has_the_same_evidence_at_another_base_rate(
    trained: Trained, by_label: dict[str, dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = by_label["synthetic.beta"]
    use_home(trained.kgcal.home, monkeypatch)
    moved = move_calibrators(StageRef("calibrate", trained.runs["calibrate"]), CalibrateConfig(base_rate=0.05))
    after = trained.explained("--model", moved.run_id, "--calibrator", "synthetic.beta")
    assert after["base_rate"] == 0.05
    assert after["evidence"]["positives"] == before["evidence"]["positives"]
    assert after["evidence"]["similar"]["share"] < before["evidence"]["similar"]["share"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", "b"), "2 names are given: give a subject, a predicate and an object"),
        (("nobody", "PREDICATE", "OBJECT"), "the graph family has no entity 'nobody' (no name is near)"),
        (("SUBJECT", "parent", "OBJECT"), "no predicate 'parent' (near names: parent_of, "),
        (
            ("SUBJECT", "PREDICATE", "OBJECT", "-o", "why.pdf"),
            "why.pdf is of an unknown kind: its name must end in .html",
        ),
        (("SUBJECT", "PREDICATE", "OBJECT", "-o", "no/why.html"), "--output no/why.html: there is no folder"),
        (("SUBJECT", "PREDICATE", "OBJECT", "--base-rate", "1"), "base_rate is 1: it must be above 0 and below 1"),
        (("SUBJECT", "PREDICATE", "OBJECT", "--missing"), "nothing says how many facts are missing: state"),
        (("SUBJECT", "nobody", "OBJECT", "--completeness", "0.8"), "the graph family has no predicate 'nobody'"),
        (("SUBJECT", "PREDICATE", "OBJECT", "--dataset", "wn11"), "wn11 has neither a champion nor a finished run"),
    ],
)
def test_a_mistake_is_reported_in_one_sentence(trained: Trained, arguments: tuple[str, ...], message: str) -> None:
    names = dict(zip(("SUBJECT", "PREDICATE", "OBJECT"), trained.triple, strict=True))
    done = trained.kgcal("explain", *(names.get(word, word) for word in arguments))
    assert done.returncode == 2
    [sentence] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert message in sentence
    assert "Traceback" not in done.stderr


def test_too_little_calibration_data_is_said(trained: Trained) -> None:
    made = trained.explained("--at-least", "100000")
    assert made["probability"] is None
    assert made["sentences"][0].startswith("No probability: there is too little calibration data for the predicate ")
