"""The web server of a scorer: its answers are those of `kgcal calibrate-scores --apply`; champions change."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from kgcore.config import EvaluateConfig, ScoresConfig
from kgcore.errors import InputError
from tasks.jobs.calibrate_scores import ScoresRequest, ScoresResult, calibrate_scores
from tasks.jobs.find_model import Ask, FoundScores, find_calibrated_model, is_of_scores
from tasks.serving import model as serving_model
from tasks.serving.api import create_app, served_by
from tasks.serving.model import ServedScores
from tests.conftest import use_home
from tests.core.scored_rows import config_of, table_of_scores, written

QUICK = EvaluateConfig(bootstrap_replicates=50)
ANSWERS = ["probability", "low", "high"]


@dataclass(frozen=True)
class Fitted:
    """A folder with scores, and the settings of calibrators that were fitted to them."""

    folder: Path
    config: ScoresConfig
    made: ScoresResult

    def apply(self, name: str, base_rate: float | None = None) -> pd.DataFrame:
        """Return the answers of `--apply` for the rows of a file."""
        target = self.folder / "expected.parquet"
        request = ScoresRequest(apply=str(self.folder / name), output=str(target), model=self.made.found.uri)
        calibrate_scores(request, config_of(scorer="miner", relation="r", base_rate=base_rate), QUICK)
        return pd.read_parquet(target)


def fit(folder: Path, name: str = "labelled.csv", promote: bool = False, **settings: Any) -> tuple[Any, ScoresConfig]:
    config = config_of(**settings)
    made = calibrate_scores(ScoresRequest(file=str(folder / name), promote=promote), config, QUICK)
    assert isinstance(made, ScoresResult)
    return made, config


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fitted]:
    folder = tmp_path_factory.mktemp("scores")
    rng = np.random.default_rng(1)
    written(folder, "labelled.csv", table_of_scores(rng, 900))
    written(folder, "others.csv", table_of_scores(rng, 50).drop_columns(["y", "w"]))
    with pytest.MonkeyPatch.context() as patch:
        use_home(folder / "home", patch)
        settings = {"scorer": "miner", "relation": "r", "calibrators": ("per_relation",), "base_rate": 0.1}
        made, config = fit(folder, promote=True, **settings)
        yield Fitted(folder, config, made)


@pytest.fixture(scope="module")
def client(fitted: Fitted) -> TestClient:
    return TestClient(create_app(ServedScores(Ask(scorer="miner"))), raise_server_exceptions=False)


@pytest.mark.parametrize("base_rate", [None, 0.3])
def test_answers_equal_those_of_the_command_to_the_bit(
    client: TestClient, fitted: Fitted, base_rate: float | None
) -> None:
    expected = fitted.apply("others.csv", base_rate)
    rows = [{"score": float(f), "relation": r} for r, f in zip(expected["r"], expected["f"], strict=True)]
    asked = {"rows": rows, "scorer": "miner"} | ({"base_rate": base_rate} if base_rate else {})
    done = client.post("/predict", json=asked)
    assert done.status_code == 200
    body = done.json()
    model = {"scorer": "miner", "uri": "models:/kgcal-scores-miner/1", "calibrator": "ground_truth.per_relation"}
    assert body["model"] | model | {"base_rate": base_rate or 0.1, "relations": ["likes", "owns", "ö"]} == body["model"]
    found = pd.DataFrame(body["answers"])
    pd.testing.assert_frame_equal(found[ANSWERS], expected[ANSWERS], check_exact=True)
    assert (found["low"] <= found["probability"]).all()
    content = (fitted.folder / "others.csv").read_bytes()
    params = {"format": "csv", "score": "f", "relation": "r"} | ({"base_rate": base_rate} if base_rate else {})
    (fitted.folder / "answers.csv").write_bytes(client.post("/file", params=params, content=content).content)
    by_file = pd.read_csv(fitted.folder / "answers.csv", float_precision="round_trip")
    pd.testing.assert_frame_equal(by_file[ANSWERS], expected[ANSWERS], check_exact=True)


ROW = {"score": 1.5, "relation": "likes"}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "the body is not JSON: EOF while parsing"),
        ({}, 422, "rows is missing"),
        ({"rows": []}, 422, "rows is a list of 0: it must have at least one row"),
        ({"rows": [ROW] * 100_001}, 422, "rows is a list of 100,001: it must have at most 100,000 rows"),
        ({"rows": [ROW, {"relation": "likes"}]}, 422, "rows[1].score is missing"),
        ({"rows": [ROW | {"score": "high"}]}, 422, 'rows[0].score is "high": it must be a number'),
        ({"rows": [ROW | {"score": None}]}, 422, "rows[0].score is null: it must be a number"),
        ('{"rows": [{"score": NaN}]}', 422, "rows[0].score is nan: it must be a finite number"),
        ({"rows": [ROW, {"score": 1}]}, 422, "rows[1].relation is missing: the calibrator per_relation has a map for"),
        ({"rows": [ROW | {"relation": 3}]}, 422, "rows[0].relation is 3: it must be text"),
        ({"rows": [ROW | {"subject": "a"}]}, 422, "rows[0].subject is unknown: leave it out"),
        ({"rows": [ROW], "base_rate": 0}, 422, "base_rate is 0: it must be above 0"),
        ({"rows": [ROW], "scorer": "engine"}, 422, "the calibrator per_relation belongs to the scorer 'miner', but"),
    ],
)
def test_an_invalid_request_gets_one_sentence(client: TestClient, body: Any, status: int, message: str) -> None:
    done = client.post("/predict", content=body if isinstance(body, str) else json.dumps(body))
    assert (done.status_code, list(done.json())) == (status, ["error"])
    assert done.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("query", "content", "message"),
    [
        ("format=csv", b"f,r\n1,likes\n", "scores.csv has no column score: its columns are f, r"),
        ("format=csv&score=f", b"f,r\n1,likes\n", "scores.csv has no column relation: its columns are f, r"),
        (
            "format=tsv",
            b"score\trelation\nhigh\tlikes\n",
            "scores.tsv, line 2: the score in the column score is 'high'",
        ),
        ("format=csv", b"score,relation\n", "scores.csv has no rows after its header"),
        ("format=csv", b"", "scores.csv"),
        ("format=json", b"{}", "format is json: it must be one of tsv, csv, parquet"),
    ],
)
def test_a_faulty_file_gets_one_sentence(client: TestClient, query: str, content: bytes, message: str) -> None:
    done = client.post(f"/file?{query}", content=content)
    assert (done.status_code, list(done.json())) == (422, ["error"])
    assert done.json()["error"].startswith(message)


def test_probabilities_of_a_scorer_become_calibrated_and_others_are_refused(fitted: Fitted) -> None:
    table = table_of_scores(np.random.default_rng(3), 500).to_pandas()
    table["f"] = 1 / (1 + np.exp(-3 * table["f"]))
    table.to_csv(fitted.folder / "confidences.csv", index=False)
    fit(fitted.folder, "confidences.csv", scorer="llm", scale="probability", calibrators=("platt",))
    client = TestClient(create_app(ServedScores(Ask(scorer="llm"))))
    answers = client.post("/predict", json={"rows": [{"score": score} for score in (0, 0.5, 1)]}).json()["answers"]
    probabilities = [answer["probability"] for answer in answers]
    assert 0 < probabilities[0] < probabilities[1] < probabilities[2] < 1
    refused = client.post("/predict", json={"rows": [{"score": 0.5}, {"score": 1.2}]})
    message = "rows[1]: the score in the column score is 1.2: it must be in [0, 1], as a probability"
    assert (refused.status_code, refused.json()) == (422, {"error": message})


def test_the_options_name_a_scorer_or_a_data_set(fitted: Fitted) -> None:
    assert isinstance(served_by(Ask(scorer="miner")), ServedScores)
    assert isinstance(served_by(Ask(fitted.made.found.uri)), ServedScores)
    named = served_by(Ask(fitted.made.run, calibrator="per_relation")).current
    assert isinstance(named, FoundScores)
    assert named.calibrator.bound.name == "per_relation"
    assert not is_of_scores(Ask(dataset="family"))
    with pytest.raises(InputError, match="--dataset family and --scorer miner are given"):
        served_by(Ask(dataset="family", scorer="miner"))
    with pytest.raises(InputError, match="no calibrator of the scorer 'engine' was fitted"):
        served_by(Ask(scorer="engine"))
    with pytest.raises(InputError, match="calibrates scores: use `kgcal calibrate-scores --model`"):
        find_calibrated_model(Ask(fitted.made.found.uri))


def test_the_page_and_openapi_are_of_scores(client: TestClient) -> None:
    assert "probabilities of scores" in client.get("/").text
    body = client.get("/openapi.json").json()["paths"]["/predict"]["post"]["requestBody"]
    assert list(body["content"]["application/json"]["schema"]["properties"]) == ["rows", "base_rate", "scorer"]


def test_a_new_champion_takes_over_and_a_lost_store_loses_nothing(
    fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit(fitted.folder, scorer="other", calibrators=("bbq",))
    served = ServedScores(Ask(scorer="other"))
    client, before = TestClient(create_app(served)), served.current
    served.refresh()
    assert served.current is before

    def lost(ask: Ask) -> None:
        raise OSError("the MLflow store does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(serving_model, "locate", lost)
        served.refresh()
    assert client.get("/health").json()["store_answers"] is False
    assert client.post("/predict", json={"rows": [{"score": 1}]}).status_code == 200
    fit(fitted.folder, scorer="other", calibrators=("platt",), promote=True)
    served.refresh()
    found = client.get("/health").json()
    assert (found["model"]["uri"], found["store_answers"]) == ("models:/kgcal-scores-other/1", True)
