"""The web server: its answers are those of `kgcal predict`, invalid requests get one sentence, champions change."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fastapi.testclient import TestClient

from flows.jobs.discover import discover
from flows.jobs.explain import explain
from flows.jobs.predict import predict
from flows.jobs.promote import promote
from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, DiscoverConfig, ExplainConfig, PairsConfig, PrepareConfig, TrainConfig
from tasks.jobs.find_model import Ask
from tasks.serving import api, replies
from tasks.serving import model as serving_model
from tasks.serving.api import MOST_BYTES, create_app
from tasks.serving.model import Served
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES, use_home


def run_pipeline(k: int, epochs: int) -> None:
    """Train a model of the family graph, and calibrate its scores with one calibrator."""
    train, calibrate = TrainConfig(k=k, epochs=epochs, batch_size=128), CalibrateConfig(calibrators=("platt",))
    pipeline.fn(
        prepare=PrepareConfig(size=300),
        train=train,
        corrupt=FEW_CORRUPTIONS,
        calibrate=calibrate,
        evaluate=FEW_REPLICATES,
    )


@pytest.fixture(scope="module")
def served(quick_trees: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        use_home(tmp_path_factory.mktemp("serving"), patch)
        run_pipeline(k=16, epochs=16)
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
    predict(candidates=[str(file)], output=str(target), dataset="family", base_rate=0.1)
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
        found = client.get("/answers", params=query).json()
        answers = [{name: answer[name] for name in answer if name != "flag"} for answer in found["answers"]]
        scores = [answer["score"] for answer in answers]
        assert scores == sorted(scores, reverse=True)
        assert row[open_side] in [answer[open_side] for answer in answers if answer["known"]]
        assert row[given] not in [answer[open_side] for answer in answers]
        first = client.post("/predict", json={"triples": [{name: answers[0][name] for name in row}]}).json()["answers"]
        assert first == answers[:1]
        assert found["true"] is None
        assert "not about all answers to the query: their sum is no number of true answers" in found["about"][0]
        assert "in the order of their scores" in found["about"][1]


@pytest.mark.long
def test_answers_of_a_query_are_about_the_missing_facts_if_their_number_is_stated(
    client: TestClient, tmp_path: Path
) -> None:
    query = {"subject": "person_1", "predicate": "cousin_of", "completeness": "0.9"}
    found = client.get("/answers", params=query | {"top": 30}).json()
    missing = [answer for answer in found["answers"] if not answer["known"]]
    assert [answer["probability"] for answer in missing] == sorted([a["probability"] for a in missing], reverse=True)
    assert found["true"]["expected"] == pytest.approx(sum(answer["probability"] for answer in missing))
    assert "true by the stated completeness 0.9" in found["about"][0]
    assert found["model"]["calibrator"] == "population.boosted_trees"
    assert found["model"]["because"].startswith("The champion answers: ")
    target = tmp_path / "facts.parquet"
    config = DiscoverConfig(top=3, completeness="0.9")
    discover(subject="person_1", predicate="cousin_of", dataset="family", output=str(target), config=config)
    columns = ["subject", "object", "score", "probability", "low", "high"]
    pd.testing.assert_frame_equal(pd.DataFrame(missing[:3])[columns], pd.read_parquet(target)[columns])
    triple = {name: missing[0][name] for name in ("subject", "predicate", "object")}
    made = client.get("/explain", params=triple | {"completeness": "0.9"}).json()
    answer = predict(candidates=list(triple.values()), dataset="family", pairs=PairsConfig(completeness="0.9"))
    asked = ("score", "probability", "low", "high")
    assert [made[name] for name in asked] == [missing[0][name] for name in asked]
    assert [answer.rows[0][name] for name in asked] == [missing[0][name] for name in asked]
    own = explain(triple=list(triple.values()), dataset="family", config=ExplainConfig(completeness="0.9"))
    assert own.facts["probability"] == made["probability"]
    assert made["about"] in made["sentences"]
    for wrong in ({"completeness": "/etc/passwd"}, {"completeness": "1.5"}):
        refused = client.get("/answers", params=query | wrong)
        assert refused.status_code == 422
        assert "it must be above 0 and below 1, or LOW:HIGH, such as 0.7:0.9" in refused.json()["error"]
    both = client.get("/answers", params=query | {"base_rate": 0.1}).json()["error"]
    assert "so state one of them" in both
    nothing = client.get("/explain", params=triple | {"missing": True}).json()["error"]
    assert nothing == "missing is true, but nothing says how many facts are missing: state completeness"


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


@pytest.mark.long
def test_many_unknown_triples_are_compared_with_the_calibration_triples(client: TestClient) -> None:
    people = [f"person_{number}" for number in range(1, 10)]
    rows = [{"subject": s, "predicate": "parent_of", "object": o} for s in people for o in people if s != o]
    found = client.post("/predict", json={"triples": rows}).json()
    [about] = found["about"]
    assert about.startswith("No probabilities: the triples are unlike the calibration triples (AUROC 0.")
    assert {row["probability"] for row in found["answers"]} == {None}
    done = client.post("/file", params={"format": "csv"}, content=pd.DataFrame(rows).to_csv(index=False).encode())
    assert done.headers["about"] == about
    assert pd.read_csv(io.BytesIO(done.content))["probability"].isna().all()
    few = client.post("/predict", json={"triples": rows[:2]}).json()
    assert "too few of the 2 triples are new to the graph to compare" in few["about"][0]
    assert all(row["probability"] for row in few["answers"])
    stated = client.post("/predict", json={"triples": rows[:2], "completeness": "0.8"}).json()
    assert stated["about"][0].startswith(
        "Fewer than 50 triples are new to the graph, so how they were chosen is not used"
    )
    assert [row["probability"] for row in stated["answers"]] != [row["probability"] for row in few["answers"]]


TRIPLE = {"subject": "a", "predicate": "p", "object": "b"}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("{", 400, "the body is not JSON: EOF while parsing"),
        ("subject,predicate,object", 400, "the body is not JSON: expected value at line 1"),
        (b'{"triples": ["\xff"]}', 400, "the body is not JSON: invalid unicode"),
        ("[" * 100_000, 400, "the body is not JSON: recursion limit"),
        ("", 422, "the body is empty: it must be a JSON object"),
        ("null", 422, "the body is null: it must be a JSON object"),
        ("[]", 422, "the body is a list of 0: it must be a JSON object"),
        ({}, 422, "triples is missing"),
        ({"triples": None}, 422, "triples is null: it must be a list"),
        ({"triples": TRIPLE}, 422, "triples is an object: it must be a list"),
        ({"triples": ["a"]}, 422, 'triples[0] is "a": it must be a JSON object'),
        ({"triples": [TRIPLE] * 100_001}, 422, "triples is a list of 100,001: it must have at most 100,000 triples"),
        ({"triples": []}, 422, "triples is a list of 0: it must have at least one triple"),
        ({"triples": [{"subject": "a", "predicate": "p"}]}, 422, "triples[0].object is missing"),
        ({"triples": [TRIPLE | {"object": None}]}, 422, "triples[0].object is null: it must be text"),
        ({"triples": [TRIPLE, TRIPLE | {"subject": 5}]}, 422, "triples[1].subject is 5: it must be text"),
        ({"triples": [TRIPLE | {"subject": True}]}, 422, "triples[0].subject is true: it must be text"),
        ({"triples": [{"s": "a", "p": "p", "o": "b"}]}, 422, "triples[0].subject is missing"),
        ({"triples": [TRIPLE | {"relation": "p"}]}, 422, "triples[0].relation is unknown: leave it out"),
        ({"triples": [TRIPLE], "base_rate": 1}, 422, "base_rate is 1: it must be below 1"),
        ({"triples": [TRIPLE], "base_rate": "0.1"}, 422, 'base_rate is "0.1": it must be a number'),
        ({"triples": [TRIPLE], "at_least": 1.5}, 422, "at_least is 1.5: it must be a whole number"),
        ({"triples": [TRIPLE], "threshold": "high"}, 422, 'threshold is "high": it must be a number'),
        ({"triples": [TRIPLE], "cutoff": 0.5}, 422, "cutoff is unknown: leave it out"),
    ],
)
def test_an_invalid_request_gets_one_sentence(client: TestClient, body: Any, status: int, message: str) -> None:
    content = body if isinstance(body, str | bytes) else json.dumps(body)
    done = client.post("/predict", content=content)
    assert (done.status_code, list(done.json())) == (status, ["error"])
    assert done.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/answers?predicate=cousin_of", "subject and object: give one of them"),
        ("/answers?predicate=cousin_of&subject=a&object=b", "subject and object: give one of them"),
        ("/answers?predicate=cousin_of&subject=nobody", "the graph family has no entity 'nobody'"),
        (
            "/answers?predicate=cousin&subject=person_1",
            "the graph family has no predicate 'cousin' (near names: cousin_of",
        ),
        ("/answers?subject=person_1", "predicate is missing"),
        ("/answers?predicate=cousin_of&subject=person_1&top=0", "top is 0: it must be at least 1"),
        ("/names?kind=thing", "kind is thing: it must be one of entity, predicate"),
        ("/names?kind=entity&x=1", "x is unknown: leave it out"),
        ("/health?x=1", "x is unknown: leave it out"),
        ("/answers?predicate=cousin_of&subject=a&subject=b", "subject is given twice: give each parameter once"),
        ("/answers?predicate=cousin_of&subject=a&base_rate=", "base_rate is empty: it must be a number"),
        ("/explain?subject=a&predicate=cousin_of&object=b&base_rate=nan", "base_rate is nan: it must be below 1"),
    ],
)
def test_an_invalid_address_gets_one_sentence(client: TestClient, address: str, message: str) -> None:
    done = client.get(address)
    assert done.status_code == 422
    assert done.json()["error"].startswith(message)


def test_addresses_and_methods_that_do_not_exist_get_one_sentence(client: TestClient) -> None:
    for done, status, message in [
        (client.get("/nothing"), 404, "there is no address /nothing: /docs lists the addresses"),
        (client.get("/predict"), 405, "/predict does not answer GET: /docs lists the addresses"),
        (client.post("/predict?base_rate=0.1", json={"triples": [TRIPLE]}), 422, "base_rate is unknown: leave it out"),
    ]:
        assert (done.status_code, done.json()) == (status, {"error": message})


def test_a_failure_of_the_server_gets_one_sentence(
    client: TestClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*arguments: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(replies, "answers_to", fails)
    done = client.get("/answers", params={"predicate": "cousin_of", "subject": "person_1"})
    assert (done.status_code, done.json()) == (500, {"error": "the server failed: its log says why"})


@pytest.mark.parametrize(
    ("ending", "content", "message"),
    [
        ("tsv", b"a\tp\tb\na\tp\n", "candidates.tsv, line 2: 2 columns: it must have 3"),
        ("tsv", b"", "candidates.tsv is empty: it must have the columns subject, predicate, object"),
        ("csv", b"subject,predicate,object\n", "candidates.csv has no rows: it must have at least one triple"),
        ("csv", b"subject,object\na,b\n", "candidates.csv, line 1: 2 columns: it must have at least 3"),
        ("csv", b"subject,predicate,object\n\xff,p,b\n", "candidates.csv, line 2: byte 0xff is not UTF-8"),
        ("csv", b"subject,predicate,object,score\na,p,b,1\n", "the candidates already have the columns score"),
        ("parquet", b"subject", "candidates.parquet cannot be read as Parquet"),
        ("parquet", {"subject": ["a"], "object": ["b"]}, "candidates.parquet has no column predicate"),
        ("parquet", {"subject": [["a"]], "predicate": ["p"], "object": ["b"]}, "the column subject of candidates"),
        ("xlsx", b"a", "format is xlsx: it must be one of tsv, csv, parquet"),
    ],
)
def test_a_faulty_file_gets_one_sentence(client: TestClient, ending: str, content: Any, message: str) -> None:
    if isinstance(content, dict):
        written = io.BytesIO()
        pd.DataFrame(content).to_parquet(written)
        content = written.getvalue()
    done = client.post("/file", params={"format": ending}, content=content)
    assert (done.status_code, list(done.json())) == (422, ["error"])
    assert done.json()["error"].startswith(message)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("application/x-www-form-urlencoded", b"a\tparent_of\tbc\tparent_of\td"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\na\tparent_of\tb\r\n--x--"),
    ],
)
def test_a_form_that_has_lost_its_rows_is_refused(client: TestClient, kind: str, content: bytes) -> None:
    done = client.post("/file?format=tsv", content=content, headers={"content-type": kind})
    assert done.status_code == 415
    assert done.json()["error"].endswith("send it with `curl --data-binary @FILE`")
    form = {"content-type": "application/x-www-form-urlencoded"}  # as `curl --data-binary` sends it
    assert client.post("/file?format=tsv", content=b"a\tparent_of\tb\n", headers=form).status_code == 200


@pytest.mark.parametrize("address", ["/predict", "/file?format=tsv"])
def test_a_large_body_gets_the_limit(client: TestClient, address: str) -> None:
    large = client.post(address, content=b"a" * (MOST_BYTES + 1))
    assert large.status_code == 413
    assert large.json()["error"] == "the body has more than 64 MiB: divide it into several requests"


def test_a_body_that_a_thread_answers_gets_the_same_answers(
    client: TestClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"triples": triples(served, 5)}
    at_once = client.post("/predict", json=body)
    monkeypatch.setattr(api, "AT_ONCE", 0)
    assert client.post("/predict", json=body).json() == at_once.json()
    assert client.post("/predict", json={"triples": []}).status_code == 422


def test_openapi_describes_the_body_and_needs_no_other_schema(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    body = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert list(body["properties"]) == ["triples", "base_rate", "completeness", "threshold", "at_least"]
    assert list(body["properties"]["triples"]["items"]["properties"]) == ["subject", "predicate", "object"]
    for reference in re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described)):
        assert reference in described["components"]["schemas"]


def test_a_new_champion_takes_over_and_a_lost_store_loses_nothing(
    client: TestClient, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = served.current
    served.refresh()
    assert served.current is before

    def lost(ask: Ask) -> None:
        raise OSError("the MLflow store does not answer")

    with monkeypatch.context() as broken:
        broken.setattr(serving_model, "locate", lost)
        served.refresh()
    assert client.get("/health").json()["store_answers"] is False
    assert client.post("/predict", json={"triples": triples(served, 1)}).status_code == 200
    run_pipeline(k=16, epochs=40)
    [decision] = promote.fn(dataset="family")
    assert decision.passed
    served.refresh()
    found = client.get("/health").json()
    assert (found["model"]["uri"], found["store_answers"]) == ("models:/kgcal-family/2", True)
