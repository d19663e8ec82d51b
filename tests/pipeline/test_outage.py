"""A tracking server that is away, that loses answers, or that stays away: nothing is lost and nothing is made twice."""

import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
from mlflow import MlflowClient

from flows.jobs.promote import promote
from flows.pipeline import pipeline
from kgcore.config import CalibrateConfig, PrepareConfig, TrainConfig
from kgcore.errors import InputError, OutageError
from tasks.tracking import connection
from tasks.tracking import store as stores
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.flow_run import SeriesLog
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES, use_home
from tests.ports import free_port

pytestmark = [pytest.mark.kills, pytest.mark.usefixtures("home")]

SMALL = {
    "train": TrainConfig(k=16, epochs=5, batch_size=128),
    "corrupt": FEW_CORRUPTIONS,
    "calibrate": CalibrateConfig(calibrators=("platt", "isotonic")),
    "evaluate": FEW_REPLICATES,
}
OUTAGES = [float(text) for text in os.environ.get("OUTAGES", "2").split()]  # seconds
SERVER = "import sys; from mlflow.cli import cli; sys.exit(cli())"


class Server:
    """A real MLflow server on 127.0.0.1, which can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        folder.mkdir(parents=True)

    def start(self) -> None:
        words = ("server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1")
        places = ("--backend-store-uri", f"sqlite:///{self.folder}/s.db", "--artifacts-destination", str(self.folder))
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVER, *words, *places], stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                if requests.get(f"{self.address}/health", timeout=5).ok:
                    return
            except requests.RequestException:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)
        pytest.fail("the MLflow server does not start")

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=120)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server") / "store")
    server.start()
    yield server
    server.stop()


PASS, AWAY, LOST, HANG = "pass", "away", "lost", "hang"  # LOST: the server does the work, and its answer is lost
Fate = Callable[[str, str, bytes], str]  # method, path, body


@contextmanager
def proxy(server: Server, fate: Fate) -> Iterator[str]:
    """Pass requests on to the server as `fate` decides, and yield the address of the proxy."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline()
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            decided = fate(self.command, self.path, body)
            headers = {name: text for name, text in self.headers.items() if name not in ("Host", "Content-Length")}
            if decided == HANG:
                time.sleep(60)
            if decided not in (AWAY, HANG):
                done = requests.request(self.command, f"{server.address}{self.path}", data=body, headers=headers)
            if decided != PASS:
                self.close_connection = True
                return
            self.send_response(done.status_code)
            self.send_header("Content-Type", done.headers.get("Content-Type", ""))
            self.send_header("Content-Length", str(len(done.content)))
            self.end_headers()
            self.wfile.write(done.content)

        def log_message(self, *values: object) -> None:
            """Print nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}"
    finally:
        listener.shutdown()
        listener.server_close()


def use(address: str, experiment: str, patch: pytest.MonkeyPatch) -> Store:
    """Let this process use the server at an address, and return its store."""
    patch.setenv("MLFLOW_TRACKING_URI", address)
    patch.setenv("MLFLOW_EXPERIMENT_NAME", experiment)
    return open_store()


def figures(seed: int) -> list[object]:
    """Run a pipeline, and return its figures. seed: that of the graph; the server has no stages of another one."""
    found = pipeline.fn(preset="default", **SMALL | {"prepare": PrepareConfig(size=300, graph_seed=seed)}).to_json()
    return [found[name] for name in ("metrics", "intervals", "ranks", "accuracy_per_relation")]


def counted(store: Store) -> list[Counter[str]]:
    """Return how many runs, LoggedModels and outputs of each name there are. All must be finished."""
    runs = store.client.search_runs([store.experiment_id], max_results=1000)
    models = store.client.search_logged_models([store.experiment_id])
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert {str(model.status) for model in models} == {"READY"}
    outputs = {str(run.info.run_name): len(run.outputs.model_outputs) for run in runs}
    return [Counter(str(run.info.run_name) for run in runs), Counter(m.name for m in models), Counter(outputs)]


@pytest.mark.parametrize("seconds", OUTAGES)
def test_outages_and_lost_answers_change_nothing_and_make_nothing_twice(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    use_home(tmp_path / "undisturbed", monkeypatch)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "undisturbed")
    undisturbed, made = figures(round(seconds)), counted(open_store())
    use_home(tmp_path / "disturbed", monkeypatch)
    moments = {"training": '"loss"', "scoring": '"score"', "registering": "model-versions/create"}
    began, seen = dict[str, float](), Counter[str]()

    def fate(method: str, path: str, body: bytes) -> str:
        """Be away for these seconds at each moment; otherwise lose every other answer to a change."""
        for moment, sign in moments.items():
            if method == "POST" and sign.encode() in path.encode() + body:
                began.setdefault(moment, time.monotonic())
        if any(time.monotonic() < start + seconds for start in began.values()):
            return AWAY
        if method not in ("POST", "PUT", "PATCH") or path.endswith("search"):
            return PASS
        seen[path] += 1
        return LOST if seen[path] % 2 else PASS

    with proxy(server, fate) as address:
        store = use(address, f"away for {seconds} s", monkeypatch)
        assert figures(round(seconds)) == undisturbed
        assert counted(store) == made
        promote.fn(dataset="family")
    assert began.keys() == moments.keys()
    versions = MlflowClient(server.address).search_model_versions("name = 'kgcal-family'")
    assert [str(version.version) for version in versions] == ["1"]
    assert {run.info.status for run in MlflowClient(server.address).search_runs([store.experiment_id])} == {"FINISHED"}
    MlflowClient(server.address).delete_registered_model("kgcal-family")


def test_a_server_that_is_stopped_and_started_gets_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kgcal")
    server = Server(tmp_path / "own")
    server.start()
    store, data = use(server.address, "restarted", monkeypatch), DatasetId("family", "0" * 32)
    with store.open_run("train", RunTags(stage="train")) as run_id:
        losses = SeriesLog(lambda values, **how: store.log_series(run_id, "loss", values, data, **how), seconds=0)
        losses.add(1, 0.5)
        server.stop()
        started = time.monotonic()
        for epoch in range(2, 200):
            losses.add(epoch, 1 / epoch)
        assert time.monotonic() - started < 5  # the training did not wait
        again = threading.Timer(2, server.start)
        again.start()
        losses.flush()  # it waits
        again.join()
    assert store.series(run_id, "loss") == [0.5, *(1 / epoch for epoch in range(2, 200))]
    assert store.get(run_id).status == "FINISHED"
    said = [record.getMessage() for record in caplog.records if record.name == "kgcal"]
    assert sum("goes on without the MLflow store" in text for text in said) == 1
    assert sum("does not answer: waiting at most 900 s" in text for text in said) == 1
    assert any("answers again" in text for text in said)
    server.stop()


def test_a_server_that_stays_away_ends_the_work_with_one_sentence(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_away = threading.Event()
    monkeypatch.setenv("KGCAL_OUTAGE_SECONDS", "1")

    def work(store: Store) -> None:
        with store.open_run("score", RunTags(stage="score")) as run_id:
            is_away.set()
            store.log_metrics(run_id, {"scored": 1.0})

    with proxy(server, lambda *request: AWAY if is_away.is_set() else PASS) as address:
        store = use(address, "stays away", monkeypatch)
        started = time.monotonic()
        with pytest.raises(OutageError, match=r"has not answered for 1 seconds, .*: nothing is lost, start it and run"):
            work(store)
        assert time.monotonic() - started < 5  # neither the end of the run waits again
        stores._store.cache_clear()  # as in a new process
        with pytest.raises(InputError, match="cannot be opened"):
            open_store()
        is_away.clear()
        [run] = open_store().find(RunTags(stage="score"), status=None)
    assert run.status == "KILLED"


def test_a_server_that_hangs_is_away(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kgcal")
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1)
    hangs, data = threading.Event(), DatasetId("family", "0" * 32)

    def train(store: Store) -> None:
        with store.open_run("train", RunTags(stage="train")) as run_id:
            losses = SeriesLog(lambda values, **how: store.log_series(run_id, "loss", values, data, **how), seconds=0)
            hangs.set()
            started = time.monotonic()
            for epoch in range(1, 100):
                losses.add(epoch, 1 / epoch)
            assert time.monotonic() - started < 2  # the training waited for one answer, for a second
            losses.flush()

    with proxy(server, lambda *request: HANG if hangs.is_set() else PASS) as address:
        store = use(address, "hangs", monkeypatch)
        monkeypatch.setenv("KGCAL_OUTAGE_SECONDS", "4")
        started = time.monotonic()
        with pytest.raises(
            OutageError, match=r"has not answered for 4 seconds, API request .* failed .*Read timed out"
        ):
            train(store)
        assert time.monotonic() - started < 10
    said = [record.getMessage() for record in caplog.records if record.name == "kgcal"]
    assert sum("the work goes on without the MLflow store" in text for text in said) == 1
    assert sum("does not answer: waiting at most 4 s" in text for text in said) == 1


def test_a_server_that_hangs_at_the_start_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1)
    started = time.monotonic()
    refused = pytest.raises(InputError, match=r"cannot be opened: API request to .* failed .*Read timed out")
    with socket.create_server(("127.0.0.1", 0)) as silent, refused:  # the system accepts, and nobody answers
        use(f"http://127.0.0.1:{silent.getsockname()[1]}", "hangs", monkeypatch)
    assert time.monotonic() - started < 10
