"""The web server: its answers are those of `kgcal predict`, invalid requests get one sentence, champions change."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from flows.pipeline import pipeline
from flows.predict import predict
from flows.promote import promote
from kgcore.config import CalibrateGiven, PrepareGiven, TrainGiven
from kgcore.errors import InputError
from tasks.jobs.calibrated_model import Ask
from tasks.serving import model as serving
from tasks.serving.api import create_app
from tasks.serving.limits import MOST_BYTES
from tasks.serving.model import Served
from tests.conftest import use_home


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        use_home(tmp_path_factory.mktemp("serving"), patch)
        train = TrainGiven(k=16, epochs=30, batch_size=128)
        pipeline.fn(prepare=PrepareGiven(size=300), train=train, calibrate=CalibrateGiven(calibrators=("platt",)))
        [decision] = promote.fn(dataset="family")
        assert decision.passed
        yield Served(Ask(dataset="family"))


@pytest.fixture
def client(served: Served) -> TestClient:
    return TestClient(create_app(served), raise_server_exceptions=False)


def triples(served: Served, count: int) -> list[dict[str, str]]:
    graph = served.current.found.model.graph
    return graph.names_of(graph.test.triples[:count]).to_dict("records")


def test_answers_equal_those_of_predict_to_the_bit(client: TestClient, served: Served, tmp_path: Path) -> None:
    rows = [*triples(served, 50), {"subject": "nobody", "predicate": "cousin_of", "object": "person_1"}]
    file = tmp_path / "rows.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    target = tmp_path / "answers.parquet"
    predict.fn(candidates=[str(file)], output=str(target), dataset="family", base_rate=0.1)
    done = client.post("/predict", json={"triples": rows, "base_rate": 0.1})
    assert done.status_code == 200
    body = done.json()
    assert body["model"] | {"base_rate": 0.1} == body["model"]
    assert body["model"]["uri"] == "models:/kgcal-family/1"
    expected = pd.read_parquet(target).astype(object)
    pd.testing.assert_frame_equal(pd.DataFrame(body["answers"], dtype=object), expected.where(expected.notna(), None))


def test_answers_of_a_query_are_ranked_and_known_facts_marked(client: TestClient, served: Served) -> None:
    [row] = triples(served, 1)
    for open_side, given in (("object", "subject"), ("subject", "object")):
        query = {given: row[given], "predicate": row["predicate"], "top": 400}
        answers = client.get("/answers", params=query).json()["answers"]
        scores = [answer["score"] for answer in answers]
        assert scores == sorted(scores, reverse=True)
        assert row[open_side] in [answer[open_side] for answer in answers if answer["known"]]
        assert row[given] not in [answer[open_side] for answer in answers]
        first = client.post("/predict", json={"triples": [{name: answers[0][name] for name in row}]}).json()["answers"]
        assert first == answers[:1]


def test_a_probability_is_explained(client: TestClient, served: Served) -> None:
    [row] = triples(served, 1)
    done = client.get("/explain", params=row | {"base_rate": 0.2})
    assert done.status_code == 200
    found = done.json()
    answer = client.post("/predict", json={"triples": [row], "base_rate": 0.2}).json()["answers"][0]
    assert [found[name] for name in ("score", "probability", "low", "high")] == [
        answer[name] for name in ("score", "probability", "low", "high")
    ]
    assert len(found["sentences"]) > 3
    unknown = client.get("/explain", params=row | {"subject": "nobody"})
    assert unknown.status_code == 422
    assert "nobody" in unknown.json()["error"]


def test_names_are_completed(client: TestClient) -> None:
    found = client.get("/names", params={"kind": "entity", "text": "PERSON_1", "limit": 3}).json()["names"]
    assert found == ["person_1", "person_10", "person_100"]
    assert client.get("/names", params={"kind": "predicate", "text": "sin"}).json()["names"] == ["cousin_of"]


@pytest.mark.parametrize("ending", ["tsv", "csv", "parquet"])
def test_a_file_is_answered_with_a_file(client: TestClient, served: Served, tmp_path: Path, ending: str) -> None:
    rows = pd.DataFrame(triples(served, 20))
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet":
        rows.to_parquet(path)
    else:
        rows.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    done = client.post("/file", params={"format": ending}, content=path.read_bytes())
    assert done.status_code == 200
    target = tmp_path / f"answers.{ending}"
    target.write_bytes(done.content)
    answers = pd.read_parquet(target) if ending == "parquet" else pd.read_csv(target, sep=None, engine="python")
    assert answers["score"].notna().all()
    assert len(answers) == 20


TRIPLE = {"subject": "a", "predicate": "p", "object": "b"}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "the body is not JSON"),
        ("", 422, "the body is empty: it must be a JSON object"),
        ("[]", 422, "the body is a list of 0: it must be a JSON object"),
        ({}, 422, "triples is missing"),
        ({"triples": []}, 422, "triples is a list of 0: it must have at least one triple"),
        ({"triples": [{"subject": "a", "predicate": "p"}]}, 422, "triples[0].object is missing"),
        ({"triples": [TRIPLE | {"object": None}]}, 422, "triples[0].object is null: it must be text"),
        ({"triples": [TRIPLE, TRIPLE | {"subject": 5}]}, 422, "triples[1].subject is 5: it must be text"),
        ({"triples": [TRIPLE | {"relation": "p"}]}, 422, "triples[0].relation is unknown: leave it out"),
        ({"triples": [TRIPLE], "base_rate": 1}, 422, "base_rate is 1: it must be below 1"),
        ({"triples": [TRIPLE], "threshold": "high"}, 422, 'threshold is "high": it must be a number'),
        ({"triples": [TRIPLE], "cutoff": 0.5}, 422, "cutoff is unknown: leave it out"),
    ],
)
def test_an_invalid_request_gets_one_sentence(client: TestClient, body: Any, status: int, message: str) -> None:
    sent = {"content": body} if isinstance(body, str) else {"json": body}
    done = client.post("/predict", **sent, headers={"content-type": "application/json"})
    assert (done.status_code, list(done.json())) == (status, ["error"])
    assert done.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/answers?predicate=cousin_of", "subject and object: give one of them"),
        ("/answers?predicate=cousin_of&subject=a&object=b", "subject and object: give one of them"),
        ("/answers?predicate=cousin_of&subject=nobody", "the subject 'nobody' is not in the graph"),
        ("/answers?predicate=cousin&subject=person_1", "the predicate 'cousin' is not in the graph"),
        ("/answers?subject=person_1", "predicate is missing"),
        ("/answers?predicate=cousin_of&subject=person_1&top=0", "top is 0: it must be at least 1"),
        ("/names?kind=thing", "kind is thing: it must be one of entity, predicate"),
        ("/names?kind=entity&x=1", "x is unknown: leave it out"),
    ],
)
def test_an_invalid_address_gets_one_sentence(client: TestClient, address: str, message: str) -> None:
    done = client.get(address)
    assert done.status_code == 422
    assert done.json()["error"].startswith(message)


def test_a_faulty_file_gets_its_line_and_a_large_body_the_limit(client: TestClient) -> None:
    done = client.post("/file", params={"format": "tsv"}, content=b"a\tp\tb\na\tp\n")
    assert (done.status_code, done.json()["error"]) == (422, "candidates.tsv, line 2: 2 columns: it must have 3")
    large = client.post("/file", params={"format": "tsv"}, content=b"a" * (MOST_BYTES + 1))
    assert large.status_code == 413
    assert large.json()["error"] == "the body has more than 64 MiB: divide it into several requests"


def test_a_new_champion_takes_over_and_a_lost_store_loses_nothing(
    client: TestClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = served.current
    served.refresh()
    assert served.current is before

    def lost(ask: Ask) -> None:
        raise InputError("the MLflow store does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(serving, "locate", lost)
        served.refresh()
    assert client.post("/predict", json={"triples": triples(served, 1)}).status_code == 200
    train = TrainGiven(k=48, epochs=80, batch_size=128)
    pipeline.fn(prepare=PrepareGiven(size=300), train=train)
    [decision] = promote.fn(dataset="family")
    assert decision.passed
    served.refresh()
    assert client.get("/health").json()["model"]["uri"] == "models:/kgcal-family/2"
