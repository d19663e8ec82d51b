"""`kgcal up` to `kgcal down`: servers on PostgreSQL, a worker, and what becomes of them when something dies."""

import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import requests
from mlflow import MlflowClient

from tests.e2e.postgres import Postgres, postgres
from tests.pipeline.conftest import Kgcal
from tests.ports import free_port

SIZES = ["--size", "300", "--k", "8", "--epochs", "2"]


def until(what: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.5)


class Local:
    """A home with its servers, and their APIs as a program sees them."""

    def __init__(self, folder: Path, database: Postgres) -> None:
        self.database = database
        self.kgcal = Kgcal(
            folder,
            MLFLOW_TRACKING_URI=database.url("mlflow"),
            PREFECT_API_DATABASE_CONNECTION_URL=database.url("prefect", "postgresql+asyncpg"),
        )
        self.mlflow, self.prefect = free_port(), free_port()
        self.ports = ["--mlflow-port", str(self.mlflow), "--prefect-port", str(self.prefect)]

    def state(self) -> dict[str, str]:
        """Service -> state, as `kgcal status` says."""
        done = self.kgcal("status")
        assert done.returncode == 0, done.stderr
        return {line.split()[0]: line[9:22].strip() for line in done.stdout.splitlines()}

    def process(self, name: str) -> psutil.Process:
        entries = json.loads((self.kgcal.home / "services" / "services.json").read_text())
        return psutil.Process(next(entry["pid"] for entry in entries if entry["name"] == name))

    def api(self, path: str, body: object = None) -> object:
        answer = requests.post(f"http://127.0.0.1:{self.prefect}/api/{path}", json=body or {}, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def trigger(self, deployment: str, **parameters: object) -> str:
        """The id of a new run of a deployment."""
        url = f"http://127.0.0.1:{self.prefect}/api/deployments/name/{deployment}"
        found = requests.get(url, timeout=20).json()
        made = self.api(f"deployments/{found['id']}/create_flow_run", {"parameters": parameters})
        assert isinstance(made, dict)
        return str(made["id"])

    def run_state(self, run: str) -> str:
        return str(
            requests.get(f"http://127.0.0.1:{self.prefect}/api/flow_runs/{run}", timeout=20).json()["state_name"]
        )

    def mlflow_states(self) -> list[str]:
        return [status for (status,) in self.database.ask("mlflow", "SELECT status FROM runs")]


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as made:
        yield made


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, database: Postgres) -> Iterator[Local]:
    made = Local(tmp_path_factory.mktemp("local"), database)
    try:
        done = made.kgcal("up", *made.ports)
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.kgcal("down")


def test_up_starts_what_is_missing_and_nothing_twice(local: Local) -> None:
    assert local.state() == {"mlflow": "up", "prefect": "up", "worker": "up"}
    before = {name: local.process(name) for name in ("mlflow", "prefect", "worker")}
    assert local.kgcal("up").returncode == 0
    assert {name: local.process(name) for name in before} == before
    assert requests.get(f"http://127.0.0.1:{local.mlflow}/health", timeout=5).text == "OK"
    deployments = local.api("deployments/filter")
    assert isinstance(deployments, list)
    assert {"pipeline", "nightly", "reproduce", "stage-calibrate"} <= {deployment["name"] for deployment in deployments}


def test_a_run_is_seen_and_one_stage_is_triggered_again(local: Local) -> None:
    results = local.kgcal.results("--dataset", "family", *SIZES)
    runs = local.api("flow_runs/filter")
    assert isinstance(runs, list)
    assert [(run["name"], run["state_name"]) for run in runs] == [("family transe self_adversarial", "Completed")]
    run = local.trigger("calibrate/stage-calibrate", scores=results["runs"]["score"], config={"base_rate": 0.2})
    until(lambda: local.run_state(run) == "Completed")
    client = MlflowClient(tracking_uri=f"http://127.0.0.1:{local.mlflow}")
    [experiment] = [e for e in client.search_experiments() if e.name == "kgcal"]
    newest = client.search_runs([experiment.experiment_id], "tags.`kgcal.stage` = 'calibrate'", max_results=1)[0]
    assert json.loads(newest.data.tags["kgcal.config"])["base_rate"] == 0.2


@pytest.fixture(scope="module")
def killed(local: Local) -> str:
    """The flow run of a `kgcal run` that was killed."""
    command = local.kgcal.command("run", "--dataset", "family", "--size", "300", "--k", "8", "--epochs", "100000")
    process = subprocess.Popen(
        command, env=local.kgcal.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until(lambda: "RUNNING" in local.mlflow_states())
    runs = local.api("flow_runs/filter", {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}})
    process.kill()
    process.wait()
    assert isinstance(runs, list)
    [run] = runs
    return str(run["id"])


@pytest.mark.usefixtures("killed")  # early: it takes 90 seconds until it is seen
def test_both_servers_keep_everything_in_postgresql_and_no_password_is_told(local: Local) -> None:
    kinds = {kind for (kind,) in local.database.ask("mlflow", "SELECT value FROM tags WHERE key = 'kgcal.stage'")}
    assert {"train", "calibrate"} <= kinds
    [(runs,)] = local.database.ask("prefect", "SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'")
    assert runs == 2
    assert not list(local.kgcal.home.rglob("*.db"))
    assert any((local.kgcal.home / "artifacts").rglob("report.html"))  # what databases do not hold

    password = local.database.password
    said = "".join(done.stdout + done.stderr for done in map(local.kgcal, ("status", "up", "compare")))
    logs = "".join(path.read_text() for path in (local.kgcal.home / "services").iterdir())
    started = [local.process(name) for name in ("mlflow", "prefect", "worker")]
    started += [child for process in started for child in process.children(recursive=True)]
    commands = " ".join(part for process in started for part in process.cmdline())
    assert "worker start" in commands
    assert password not in said + logs + commands


def test_a_database_that_cannot_be_used_is_told_without_its_password(database: Postgres, tmp_path: Path) -> None:
    right = database.url("mlflow")
    for uri, reason in {
        right.replace("/mlflow", "/mlfow"): 'database "mlfow" does not exist',
        right.replace("kgcal:", "kgcal:not"): "password authentication failed",
        right.replace(f":{database.port}", f":{free_port()}"): "Connection refused",
    }.items():
        told(Kgcal(tmp_path, MLFLOW_TRACKING_URI=uri)("prepare", "--size", "300"), "MLflow store", reason, database)
    elsewhere = database.url("prefct", "postgresql+asyncpg")
    done = Kgcal(tmp_path, PREFECT_API_DATABASE_CONNECTION_URL=elsewhere)("up", "--mlflow-port", str(free_port()))
    told(done, "Prefect's database", 'database "prefct" does not exist', database)


def told(done: "subprocess.CompletedProcess[str]", what: str, reason: str, database: Postgres) -> None:
    assert done.returncode == 2, done.stderr
    [said] = [line for line in done.stderr.splitlines() if line.startswith("kgcal: ")]
    assert what in said
    assert reason in said
    assert "kgcal:***@" in said
    assert database.password not in done.stderr
    assert "Traceback" not in done.stderr


def test_either_driver_of_postgresql_opens_the_store(local: Local, tmp_path: Path) -> None:
    local.database.ask("postgres", "CREATE DATABASE other")
    for scheme in ("postgresql", "postgresql+psycopg2"):
        done = Kgcal(tmp_path, MLFLOW_TRACKING_URI=local.database.url("other", scheme))("prepare", "--size", "300")
        assert done.returncode == 0, done.stderr
    assert "re-used" in done.stderr


def test_a_worker_that_was_killed_is_told_and_started_again(local: Local) -> None:
    local.process("worker").send_signal(signal.SIGKILL)
    until(lambda: local.state()["worker"] == "dead", 20)
    assert local.kgcal("up").returncode == 0
    assert local.state() == {"mlflow": "up", "prefect": "up", "worker": "up"}


def test_a_dead_server_keeps_no_run_from_running(local: Local) -> None:
    for member in [*local.process("prefect").children(recursive=True), local.process("prefect")]:
        member.send_signal(signal.SIGKILL)
    until(lambda: local.state()["prefect"] == "dead", 20)
    assert local.kgcal("run", "--dataset", "family", *SIZES).returncode == 0
    assert local.kgcal("up").returncode == 0
    assert local.state()["prefect"] == "up"  # where it was, so that the worker finds it


def test_a_port_that_is_taken_ends_up_with_nothing_started(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        kgcal, free = Kgcal(tmp_path), free_port()
        done = kgcal("up", "--mlflow-port", str(free), "--prefect-port", taken)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"kgcal: port {taken} of 127.0.0.1 is taken by another program: name another with --prefect-port"
    )
    lines = kgcal("status").stdout.splitlines()
    assert [line.strip().split(maxsplit=1) for line in lines] == [
        [s, "not started"] for s in ("mlflow", "prefect", "worker")
    ]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free))  # the MLflow server that had come up is gone


def test_down_cancels_what_runs_and_ends_exactly_what_up_started(local: Local) -> None:
    run = local.trigger("train/stage-train", config={"epochs": 100_000})
    until(lambda: local.run_state(run) == "Running")
    until(lambda: "RUNNING" in local.mlflow_states())
    started = [local.process(name) for name in ("mlflow", "prefect", "worker")]
    started += local.process("worker").children(recursive=True)  # the training is one of them
    assert len(started) > 3
    ended = local.kgcal("down")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "ended: worker, prefect, mlflow"
    assert not any(process.is_running() for process in started)
    assert "RUNNING" not in local.mlflow_states()
    assert set(local.state().values()) == {"not started"}
    assert local.kgcal("down").stdout.strip() == "nothing was up"
    assert local.kgcal("up", *local.ports).returncode == 0  # what became of the run stands in the server's data
    assert local.run_state(run) == "Cancelled"


def test_what_a_killed_worker_has_left_is_ended(local: Local) -> None:
    run = local.trigger("train/stage-train", config={"epochs": 100_000})
    until(lambda: local.run_state(run) == "Running")
    until(lambda: "RUNNING" in local.mlflow_states())
    left = local.process("worker").children(recursive=True)
    local.process("worker").send_signal(signal.SIGKILL)
    assert local.kgcal("down").returncode == 0
    assert left
    assert not any(process.is_running() for process in left)
    assert "RUNNING" not in local.mlflow_states()
    assert local.kgcal("up", *local.ports).returncode == 0
    assert local.run_state(run) == "Crashed"


def test_a_server_that_the_environment_names_is_left_alone(local: Local, tmp_path: Path) -> None:
    named = f"http://127.0.0.1:{local.prefect}/api"
    done = Kgcal(tmp_path, PREFECT_API_URL=named)("up")
    assert done.returncode == 2
    assert done.stderr.startswith(f"kgcal: PREFECT_API_URL names a Prefect server already, {named}: unset it")


def test_a_run_that_was_killed_by_hand_has_crashed(local: Local, killed: str) -> None:
    until(lambda: local.run_state(killed) == "Crashed", 120)
