"""Every calibrator as an MLflow pyfunc, on a real store: probabilities to the bit, files, bad input, a server."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import mlflow
import mlflow.pyfunc
import numpy as np
import pandas as pd
import pytest
from mlflow.exceptions import MlflowException
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss

import kgcore
from tasks.tracking.connection import create_database
from tasks.workspace.services import answers as page_answers
from tests.conftest import tiny_options
from tests.docs.pages import blocks_for
from tests.pipeline.command import Kgcal, all_runs, client_of, model_folder, models_of
from tests.pipeline.finished import finished
from tests.ports import free_port

NAMES = ["subject", "predicate", "object"]
CHAMPION = "models:/kgcal-family@champion"
EVALUATE, SERVE, REQUEST = blocks_for(__file__)
DATA = {"", ".json", ".parquet", ".safetensors", ".txt", ".yaml"}  # '' is MLmodel


@dataclass(frozen=True)
class Promoted:
    """A home with a champion.

    candidates  the labelled test triples without their labels
    runs        stage -> run id
    """

    kgcal: Kgcal
    candidates: pd.DataFrame
    runs: dict[str, str]

    @property
    def store(self) -> str:
        return f"sqlite:///{self.kgcal.home}/mlflow.db"

    def calibrators(self) -> dict[str, str]:
        """Return label -> id of the calibrator's LoggedModel."""
        return {model.tags["label"]: model.model_id for model in models_of(self.kgcal, self.runs["calibrate"])}

    def champion(self) -> str:
        """Return the id of the champion's LoggedModel."""
        return client_of(self.kgcal).get_model_version_by_alias("kgcal-family", "champion").tags["kgcal.model_id"]

    def predicted(self, *options: str) -> pd.DataFrame:
        """Return the answers of `kgcal predict`."""
        source, target = self.kgcal.home / "asked.parquet", self.kgcal.home / "answered.parquet"
        self.candidates.to_parquet(source)
        done = self.kgcal("predict", str(source), "-o", str(target), *options)
        assert done.returncode == 0, done.stderr
        return pd.read_parquet(target)


@pytest.fixture(scope="module")
def promoted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Promoted]:
    kgcal, results = finished(tmp_path_factory.mktemp("pyfunc"))
    runs = results["runs"]
    assert kgcal("promote", "--dataset", "family").returncode == 0
    [test] = (kgcal.home / "datasets").glob("*/test.txt")
    candidates = pd.read_csv(test, sep="\t", names=[*NAMES, "label"], dtype=str)[NAMES]
    before = mlflow.get_tracking_uri()
    made = Promoted(kgcal, candidates, runs)
    mlflow.set_tracking_uri(made.store)
    yield made
    mlflow.set_tracking_uri(before)


def assert_equal_answers(answers: pd.DataFrame, expected: pd.DataFrame) -> None:
    assert list(answers.columns) == list(expected.columns)
    for name in expected.columns:
        missing = expected[name].isna()
        assert answers[name].isna().tolist() == missing.tolist(), name
        assert answers[name][~missing].tolist() == expected[name][~missing].tolist(), name


def test_every_calibrator_has_the_probabilities_of_predict_and_of_classify(promoted: Promoted) -> None:
    classified = client_of(promoted.kgcal).download_artifacts(promoted.runs["classify"], "predictions.parquet")
    evaluated, labels = pd.read_parquet(classified), promoted.calibrators()
    assert len(labels) == 8
    for label in ("base_rate", "ground_truth.smoothed_isotonic", "synthetic.beta"):
        model = mlflow.pyfunc.load_model(f"models:/{labels[label]}")
        answers = model.predict(promoted.candidates, params={"at_least": 0})
        assert_equal_answers(answers, promoted.predicted("--calibrator", label, "--at-least", "0"))
        found = set(zip(answers["score"], answers["probability"], strict=True))
        assert set(zip(evaluated["score"], evaluated[f"q.{label}"], strict=True)) <= found


@pytest.mark.parametrize("uri", ["models:/kgcal-family/1", CHAMPION, "MODEL_ID"])
def test_a_registered_version_answers_by_every_name(promoted: Promoted, uri: str) -> None:
    model = mlflow.pyfunc.load_model(f"models:/{promoted.champion()}" if uri == "MODEL_ID" else uri)
    params = {"base_rate": 0.1, "threshold": 0.3, "at_least": 2}
    options = ("--base-rate", "0.1", "--threshold", "0.3", "--at-least", "2")
    assert_equal_answers(model.predict(promoted.candidates, params=params), promoted.predicted(*options))
    assert list(model.metadata.get_input_schema().input_names()) == NAMES
    assert {param.name for param in model.metadata.get_params_schema()} == set(params)
    example = model.predict(model.input_example)
    assert example["score"].notna().all()


def test_a_registered_version_is_data_and_needs_neither_mlflow_nor_the_store(
    promoted: Promoted, tmp_path: Path
) -> None:
    folder = model_folder(promoted.kgcal, promoted.champion())
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {Path(name).suffix for name in files - {"registered_model_meta"}} <= DATA
    assert {"calibrator.json", "model/embeddings.safetensors", "graph/entities.parquet"} <= files
    shutil.copytree(folder, tmp_path / "copy")
    answers = kgcore.load(tmp_path / "copy").predict(promoted.candidates)
    expected = promoted.predicted()
    assert_equal_answers(answers, expected)
    empty = f"sqlite:///{tmp_path}/empty.db"
    create_database(empty)
    mlflow.set_tracking_uri(empty)
    try:
        assert_equal_answers(mlflow.pyfunc.load_model(str(tmp_path / "copy")).predict(promoted.candidates), expected)
        alone = model_folder(promoted.kgcal, promoted.calibrators()["synthetic.smoothed_isotonic"])
        with pytest.raises(
            MlflowException, match="Set MLFLOW_TRACKING_URI to the store of the model, or load a regist"
        ):
            mlflow.pyfunc.load_model(str(alone))
    finally:
        mlflow.set_tracking_uri(promoted.store)


def test_a_promotion_does_not_make_finished_stages_run_again(promoted: Promoted) -> None:
    assert promoted.kgcal.results(*tiny_options())["runs"] == promoted.runs


def test_the_requirements_are_pinned_and_have_no_local_versions(promoted: Promoted) -> None:
    lines = mlflow.pyfunc.get_model_dependencies(CHAMPION)
    text = Path(lines).read_text()
    assert {line.partition("==")[0] for line in text.splitlines()} >= {"mlflow", "numpy", "pandas", "pyarrow", "torch"}
    assert all("==" in line and "+" not in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("change", "params", "message"),
    [
        ({"object": None}, {}, r"Model is missing inputs \['object'\]"),
        (
            {"subject": ["a", None]},
            {},
            "^row 2 has no subject: every triple needs a subject, a predicate and an object$",
        ),
        ({"subject": [1, 2]}, {}, "Incompatible input types for column subject"),
        ({"subject": ["a", 2]}, {}, r"^row 2 has the subject 2 \(int\): names must be UTF-8 text$"),
        ({"rows": []}, {}, "^the input has no rows: it must have at least one triple$"),
        ({}, {"base_rate": 2.0}, "^base_rate is 2: it must be above 0 and below 1$"),
        ({}, {"threshold": "high"}, "Can not safely convert .* for value `high`"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(
    promoted: Promoted, change: dict[str, list[object] | None], params: dict[str, object], message: str
) -> None:
    frame = pd.DataFrame([["a", "b", "c"], ["d", "e", "f"]], columns=NAMES)
    if "rows" in change:
        frame, change = frame.head(0), {}
    for name, values in change.items():
        frame = frame.drop(columns=name) if values is None else frame.assign(**{name: values})
    with pytest.raises(MlflowException, match=message) as error:
        mlflow.pyfunc.load_model(CHAMPION).predict(frame, params=params)
    assert error.value.get_http_status_code() == 400


def test_a_param_without_a_value_has_its_default(promoted: Promoted) -> None:
    model, nothing = mlflow.pyfunc.load_model(CHAMPION), {"base_rate": None, "threshold": None, "at_least": None}
    assert_equal_answers(model.predict(promoted.candidates, params=nothing), model.predict(promoted.candidates))


def test_an_unknown_param_is_named_in_a_warning(promoted: Promoted, caplog: pytest.LogCaptureFixture) -> None:
    """MLflow itself leaves it out before a model sees it."""
    mlflow.pyfunc.load_model(CHAMPION).predict(promoted.candidates.head(1), params={"treshold": 0.3})
    assert "Unrecognized params ['treshold'] are ignored" in caplog.text


def test_the_description_of_a_version_is_its_model_card(promoted: Promoted) -> None:
    version = client_of(promoted.kgcal).get_model_version("kgcal-family", "1")
    assert version.description.startswith("# family: transe, ground truth.")
    for part in ("## Data", "322 entities", "**estimated**", "## Limits", "models:/kgcal-family/1", "Brier score"):
        assert part in version.description
    assert promoted.runs["evaluate"] in version.description


@pytest.mark.long
@pytest.mark.parametrize("label", [None, "synthetic.beta"])
def test_the_evaluation_of_the_page_measures_a_model(promoted: Promoted, tmp_path: Path, label: str | None) -> None:
    """A version and a calibrator: the metrics are those of `kgcal predict`, in the run and at the model."""
    model_id = promoted.calibrators()[label] if label else promoted.champion()
    [test] = (promoted.kgcal.home / "datasets").glob("*/test.txt")
    unknown = "nobody\tspouse_of\tnobody\t-1\n"  # the first row, on which MLflow tries the metrics
    (tmp_path / "new.tsv").write_text(unknown + test.read_text(encoding="utf-8"), encoding="utf-8")
    script = EVALUATE.text.replace("models:/kgcal-mine/1", f"models:/{model_id}" if label else "models:/kgcal-family/1")
    environment = promoted.kgcal.environment | {"MLFLOW_TRACKING_URI": promoted.store}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True)
    run = max(all_runs(promoted.kgcal), key=lambda run: run.info.start_time)

    labels = pd.read_csv(test, sep="\t", names=[*NAMES, "label"])["label"].to_numpy() == 1
    answers = promoted.predicted(*(["--calibrator", label] if label else []))["probability"].to_numpy()
    there = ~np.isnan(answers)
    q, y = answers[there], labels[there]
    expected = {
        "brier": brier_score_loss(y, q),
        "log_loss": log_loss(y, q),
        "accuracy": accuracy_score(y, q > 0.5),
        "answered": there.sum() / (len(labels) + 1),
    }
    assert run.data.metrics == pytest.approx(expected)
    logged = {
        m.key: m.value
        for m in client_of(promoted.kgcal).get_logged_model(model_id).metrics
        if m.run_id == run.info.run_id
    }
    assert logged == run.data.metrics
    assert run.inputs.dataset_inputs[0].dataset.name == "new"


@pytest.fixture(scope="module")
def address(promoted: Promoted) -> Iterator[str]:
    """Start the server as the page says, on a free port, and return its address."""
    port, words = free_port(), shlex.split(SERVE.text.replace("5001", "PORT"))
    command = [sys.executable, "-m", *(str(port) if word == "PORT" else word for word in words)]
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # it calls uvicorn
    environment = promoted.kgcal.environment | {"MLFLOW_TRACKING_URI": promoted.store, "PATH": programs}
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as server:
        try:
            end = time.monotonic() + 60
            while not page_answers(f"http://127.0.0.1:{port}/ping"):
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < end, "the server does not answer"
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/invocations"
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def asked(address: str, body: object) -> tuple[int, dict]:
    """Return the status and the JSON of the server's answer to a body."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    try:
        with urlopen(Request(address, data, {"Content-Type": "application/json"})) as answer:
            return answer.status, json.loads(answer.read(), parse_constant=pytest.fail)
    except HTTPError as error:
        return error.code, json.loads(error.read())


def test_the_request_of_the_page_is_answered(address: str) -> None:
    words = shlex.split(REQUEST.text.replace("\\\n", ""))
    assert words[:2] == ["curl", "http://127.0.0.1:5001/invocations"]
    status, answer = asked(address, words[words.index("-d") + 1])
    assert status == 200
    assert answer["predictions"][0]["reason"] == "unknown subject and predicate and object"


def test_mlflow_serves_the_same_answers(promoted: Promoted, address: str) -> None:
    frame = pd.concat([promoted.candidates.head(50), pd.DataFrame([["?", "p", "o"]], columns=NAMES)])
    body = {"dataframe_split": json.loads(frame.to_json(orient="split", index=False)), "params": {"base_rate": 0.2}}
    status, answer = asked(address, body)
    assert status == 200
    expected = mlflow.pyfunc.load_model(CHAMPION).predict(frame, params={"base_rate": 0.2})
    assert_equal_answers(pd.DataFrame(answer["predictions"]), expected.reset_index(drop=True))
    assert answer["predictions"][-1]["probability"] is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{bad", "Ensure that input is a valid JSON formatted string"),
        ({"dataframe_records": [{"subject": "a"}]}, "Model is missing inputs ['predicate', 'object']"),
        ({"dataframe_records": [{"subject": None, "predicate": "b", "object": "c"}]}, "row 1 has no subject"),
        (
            {"dataframe_split": {"columns": NAMES, "data": []}},
            "the input has no rows: it must have at least one triple",
        ),
        ({"dataframe_records": [{"subject": 1, "predicate": "b", "object": "c"}]}, "row 1 has the subject 1 (int)"),
    ],
)
def test_mlflows_server_answers_bad_input_with_400_and_no_traceback(address: str, body: object, message: str) -> None:
    status, answer = asked(address, body)
    assert status == 400
    assert message in answer["message"]
    assert "stack_trace" not in answer
