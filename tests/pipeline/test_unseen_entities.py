"""Entities that training has not seen, from a pipeline to predict, explain, the pyfunc and the server."""

import json
from dataclasses import dataclass
from pathlib import Path

import mlflow
import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from kgcore.storage.folders import read_graph
from kgcore.storage.tables import read_answers, read_unseen
from tasks.jobs.find_model import Ask
from tasks.serving.api import create_app
from tasks.serving.model import Served
from tests.conftest import use_home
from tests.pipeline.command import Kgcal, client_of, model_folder, models_of, runs_of

pytestmark = pytest.mark.long

NAMES = ["subject", "predicate", "object"]
SETTINGS = (
    "--preset",
    "default",
    "--k",
    "8",
    "--epochs",
    "3",
    "--batch-size",
    "256",
    "--calibrators",
    "boosted_trees,beta",
)
GROUPS = "score,degrees,name_roles,name_pairs,name_likeness,name_embeddings"


def write_graph(folder: Path) -> None:
    """Write a graph whose names say what is true: deer eat plants, and stones do not."""
    rng = np.random.default_rng(0)
    letters = [f"{a}{b}" for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrstuvwxyz"]
    deer, stones = ([f"{kind}_{ends}" for ends in letters[:400]] for kind in ("deer", "stone"))
    plants = [f"plant_{ends}" for ends in letters[:40]]
    new = {kind: [f"{kind}_new{ends}" for ends in letters[:120]] for kind in ("deer", "stone")}

    def rows(subjects: list[str], predicate: str, count: int) -> list[tuple[str, str, str]]:
        return [(str(rng.choice(subjects)), predicate, str(rng.choice(plants))) for _ in range(count)]

    train = [(one, "eats", plants[n % 40]) for n, one in enumerate(deer)]
    train += [(one, "lies_near", plants[n % 40]) for n, one in enumerate(stones)] + rows(deer, "eats", 800)
    folder.mkdir()
    lines = ["\t".join(row) for row in dict.fromkeys(train)]
    (folder / "train.tsv").write_text("\n".join(lines) + "\n")
    for name, part in (("valid", slice(0, 60)), ("test", slice(60, 120))):
        held = [(*row, 1) for row in rows(deer, "eats", 1400) + rows(new["deer"][part], "eats", 60)]
        held += [(*row, -1) for row in rows(stones, "eats", 1400) + rows(new["stone"][part], "eats", 60)]
        kept = [row for row in dict.fromkeys(held) if "\t".join(map(str, row[:3])) not in set(lines)]
        (folder / f"{name}.tsv").write_text("\n".join("\t".join(map(str, row)) for row in kept) + "\n")


@dataclass(frozen=True)
class Made:
    """A pipeline on this graph.

    unseen  test rows with unseen entities, their labels, and the answers of the stage evidence
    """

    kgcal: Kgcal
    runs: dict[str, str]
    metrics: dict[str, float]
    unseen: pd.DataFrame

    def model(self, label: str) -> str:
        """Return the id of the LoggedModel of a calibrator."""
        models = models_of(self.kgcal, self.runs["calibrate"])
        return next(model.model_id for model in models if model.tags["label"] == label)

    def predicted(self, *options: str) -> pd.DataFrame:
        source, target = self.kgcal.home / "asked.csv", self.kgcal.home / "answers.parquet"
        self.unseen[NAMES].to_csv(source, index=False)
        done = self.kgcal("predict", str(source), "-o", str(target), *options)
        assert done.returncode == 0, done.stderr
        return pd.read_parquet(target)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("unseen")
    write_graph(folder / "deer")
    kgcal = Kgcal(folder)
    results = kgcal.results(*SETTINGS, "--evidence", GROUPS, "--dataset", str(folder / "deer"))
    client, runs = client_of(kgcal), results["runs"]
    unseen = read_unseen(Path(client.download_artifacts(runs["prepare"], "unseen.parquet")))
    graph = read_graph(Path(client.download_artifacts(runs["prepare"], "graph")))
    found = read_answers(Path(client.download_artifacts(runs["evidence"], "unseen_test.parquet")))
    names, split = [*graph.entities, *unseen.names], unseen.splits["test"]
    frame = pd.DataFrame([[names[s], graph.predicates[p], names[o]] for s, p, o in split.triples], columns=NAMES)
    frame = frame.assign(truth=split.labels == 1, probability=found.probabilities, low=found.low, high=found.high)
    return Made(kgcal, runs, client.get_run(runs["evaluate"]).data.metrics, frame)


def check(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    for name in ("probability", "low", "high"):
        np.testing.assert_array_equal(found[name].astype(float), expected[name])
    assert set(found["unseen"]) == {"subject"}


def test_predict_gives_the_answers_that_evaluate_measures(made: Made) -> None:
    answers = made.predicted()
    check(answers, made.unseen)
    assert answers["score"].isna().all()
    assert answers["reason"].isna().all()
    accuracy = (answers["decision"] == made.unseen["truth"]).mean()
    assert accuracy == pytest.approx(made.metrics["all_rows_unseen_accuracy"], abs=1e-12)
    assert accuracy > 0.9
    metrics = runs_of(made.kgcal, "predict")[-1].data.metrics
    assert (metrics["unseen"], metrics["answered"]) == (len(answers), len(answers))


def test_the_stated_base_rate_counts_for_unseen_entities(made: Made) -> None:
    moved = made.predicted("--base-rate", "0.05")["probability"].to_numpy()
    before = made.unseen["probability"].to_numpy()
    assert np.ptp(np.log(moved / (1 - moved)) - np.log(before / (1 - before))) < 1e-8
    assert (moved < before).all()


def test_fdr_does_not_test_unseen_entities(made: Made) -> None:
    answers = made.predicted("--fdr", "0.1")
    assert answers["probability"].notna().all()
    assert answers["p_value"].isna().all()


def test_a_model_without_such_answers_says_what_is_missing(made: Made) -> None:
    done = made.kgcal("predict", str(made.kgcal.home / "asked.csv"), "--calibrator", "synthetic.beta")
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "no answer: unknown subject" in said
    assert "(synthetic.beta) has no answers about entities that training has not seen" in said


def test_explain_adds_up_and_says_which_words_are_known(made: Made, tmp_path: Path) -> None:
    row, data, page = made.unseen.iloc[-1], tmp_path / "why.json", tmp_path / "why.html"
    for target in (data, page):
        done = made.kgcal("explain", *row[NAMES], "-o", str(target))
        assert done.returncode == 0, done.stderr
    found = json.loads(data.read_text())
    assert (found["probability"], found["unseen"]) == (row["probability"], "subject")
    total = sum(part["log_odds"] for part in found["contributions"])
    assert total == pytest.approx(np.log(row["probability"] / (1 - row["probability"])))
    kind = row["subject"].split("_")[0]
    assert found["names"][0]["shared"] == [kind]
    assert "Training has not seen the subject" in page.read_text()
    assert "what adds to the log-odds" in done.stdout
    refused = made.kgcal("explain", row["subject"], "drinks", row["object"])
    assert refused.returncode == 2
    assert "no predicate 'drinks'" in " ".join(refused.stderr.split())


def test_the_pyfunc_and_its_files_answer_alike(made: Made) -> None:
    mlflow.set_tracking_uri(f"sqlite:///{made.kgcal.home}/mlflow.db")
    model_id = made.model("ground_truth.boosted_trees")
    loaded = mlflow.pyfunc.load_model(f"models:/{model_id}")
    check(loaded.predict(made.unseen[NAMES]), made.unseen)
    stored = json.loads((model_folder(made.kgcal, model_id) / "calibrator.json").read_text())
    assert stored["unseen"]["entities"] > 0


def test_the_server_answers_alike(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    use_home(made.kgcal.home, monkeypatch)
    served = Served(Ask())
    client = TestClient(create_app(served))
    rows = made.unseen[NAMES].to_dict("records")
    answered = client.post("/predict", json={"triples": rows}).json()["answers"]
    check(pd.DataFrame(answered), made.unseen)
    why = client.get("/explain", params=rows[0]).json()
    assert why["probability"] == answered[0]["probability"]
    wrong = client.post("/predict", json={"triples": [rows[0] | {"predicate": "drinks"}]}).json()["answers"][0]
    assert (wrong["reason"], wrong["unseen"]) == ("unknown subject and predicate", None)
    refused = client.get("/explain", params=rows[0] | {"predicate": "drinks"})
    assert refused.status_code == 422 or refused.status_code == 400
