"""`kgcal up`, `down` and `status` after a service was killed, a port was taken or a run was cancelled."""

import signal
import socket
from pathlib import Path

from tests.e2e.local import SIZES, Local, until
from tests.pipeline.command import Kgcal
from tests.ports import free_port


def test_a_killed_worker_is_reported_dead_and_started_again(local: Local) -> None:
    local.process("worker").send_signal(signal.SIGKILL)
    until(lambda: local.state()["worker"] == "dead", 20)
    assert local.kgcal("up").returncode == 0
    assert local.state() == {"mlflow": "up", "prefect": "up", "worker": "up"}


def test_runs_do_not_need_the_prefect_server(local: Local) -> None:
    for member in [*local.process("prefect").children(recursive=True), local.process("prefect")]:
        member.send_signal(signal.SIGKILL)
    until(lambda: local.state()["prefect"] == "dead", 20)
    assert local.kgcal("run", "--dataset", "family", *SIZES).returncode == 0
    assert local.kgcal("up").returncode == 0
    assert local.state()["prefect"] == "up"  # the server uses its old port, where the worker looks for it


def test_up_on_a_taken_port_leaves_nothing_running(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = str(other.getsockname()[1])
        kgcal, free = Kgcal(tmp_path), free_port()
        done = kgcal("up", "--mlflow-port", str(free), "--prefect-port", taken)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"kgcal: port {taken} of 127.0.0.1 is in use by another program: choose another port with --prefect-port"
    )
    lines = kgcal("status").stdout.splitlines()
    assert [line.strip().split(maxsplit=1) for line in lines] == [
        [s, "not started"] for s in ("mlflow", "prefect", "worker")
    ]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", free))  # the port is free again, as the MLflow server was stopped


def test_down_cancels_runs_and_stops_what_up_has_started(local: Local) -> None:
    run = local.trigger("train/stage-train", config={"epochs": 100_000})
    until(lambda: local.run_state(run) == "Running")
    until(lambda: "RUNNING" in local.mlflow_states())
    started = [local.process(name) for name in ("mlflow", "prefect", "worker")]
    started += local.process("worker").children(recursive=True)  # the training is one of these processes
    assert len(started) > 3
    ended = local.kgcal("down")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() in ("stopped: worker, prefect, mlflow", "stopped: worker, prefect, mlflow, recorder")
    assert not any(process.is_running() for process in started)
    assert "RUNNING" not in local.mlflow_states()
    assert set(local.state().values()) == {"not started"}
    assert local.kgcal("down").stdout.strip() == "nothing was running"
    assert local.kgcal("up", *local.ports).returncode == 0  # the server's database has the run's state
    assert local.run_state(run) == "Cancelled"


def test_down_cancels_the_runs_of_a_worker_that_does_not_answer(local: Local) -> None:
    run = local.trigger("train/stage-train", config={"epochs": 100_000})
    until(lambda: local.run_state(run) == "Running")
    worker = local.process("worker")
    left = worker.children(recursive=True)
    worker.send_signal(signal.SIGSTOP)
    assert local.kgcal("down").returncode == 0
    assert not any(process.is_running() for process in [worker, *left])
    assert local.kgcal("up", *local.ports).returncode == 0
    assert local.run_state(run) == "Cancelled"


def test_down_ends_the_runs_of_a_killed_worker(local: Local) -> None:
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


def test_up_leaves_a_prefect_server_that_the_environment_names_alone(local: Local, tmp_path: Path) -> None:
    named = f"http://127.0.0.1:{local.prefect}/api"
    done = Kgcal(tmp_path, PREFECT_API_URL=named)("up")
    assert done.returncode == 2
    assert done.stderr.startswith(f"kgcal: PREFECT_API_URL already names a Prefect server, {named}: unset it")
