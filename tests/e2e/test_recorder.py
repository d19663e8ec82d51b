"""Without a server, work is a flow run that the recorder keeps, and `kgcal up` lists it afterwards."""

import signal
import subprocess
from pathlib import Path

import psutil
import requests

from tests.e2e.local import SIZES, until
from tests.pipeline.command import STAGE_NAMES, Kgcal
from tests.ports import free_port


def asked(api: str, path: str) -> list[dict]:
    """Return what a Prefect API lists."""
    answer = requests.post(f"{api}/{path}/filter", json={}, timeout=20)
    answer.raise_for_status()
    return answer.json()


def recorder(kgcal: Kgcal) -> str:
    """Return the API of the recorder, which `kgcal status` shows."""
    [line] = [line for line in kgcal("status").stdout.splitlines() if line.startswith("recorder")]
    assert line.split()[1] == "up"
    return f"{line.split()[2]}/api"


def test_a_run_without_a_server_is_a_flow_run_of_tasks_that_up_lists(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path, PREFECT_SERVER_ANALYTICS_ENABLED="false")
    try:
        done = kgcal("run", *SIZES)
        assert done.returncode == 0, done.stderr
        assert "Flow run" not in done.stderr + done.stdout  # the terminal has what kgcal says
        api = recorder(kgcal)
        [run] = asked(api, "flow_runs")
        assert (run["name"], run["state_type"]) == ("family transe self_adversarial", "COMPLETED")
        until(lambda: len(asked(api, "task_runs")) == len(STAGE_NAMES))
        tasks = asked(api, "task_runs")
        assert {task["name"].rsplit("-", 1)[0] for task in tasks} == set(STAGE_NAMES)
        assert {task["flow_run_id"] for task in tasks} == {run["id"]}

        wrong = kgcal("calibrate", "--scores", "0" * 32)
        assert wrong.returncode == 2
        assert "Traceback" not in wrong.stderr
        assert recorder(kgcal) == api  # the same one
        assert sorted(run["state_type"] for run in asked(api, "flow_runs")) == ["COMPLETED", "FAILED"]

        question = kgcal("predict", "person_1", "spouse_of", "person_2")
        assert question.returncode == 0, question.stderr
        assert len(asked(api, "flow_runs")) == 2

        training = subprocess.Popen(
            kgcal.command("train", "--epochs", "100000"), env=kgcal.environment, stderr=subprocess.DEVNULL
        )
        until(lambda: any(run["state_type"] == "RUNNING" for run in asked(api, "flow_runs")))
        training.send_signal(signal.SIGKILL)
        training.wait()
        assert "recorder" in kgcal("down").stdout
        assert kgcal("prepare", *SIZES[:2]).returncode == 0
        assert {run["state_type"] for run in asked(recorder(kgcal), "flow_runs")} == {"COMPLETED", "FAILED", "CRASHED"}

        port = free_port()
        up = kgcal("up", "--mlflow-port", str(free_port()), "--prefect-port", str(port))
        assert up.returncode == 0, up.stderr
        assert run["id"] in {run["id"] for run in asked(f"http://127.0.0.1:{port}/api", "flow_runs")}
    finally:
        kgcal("down")


def test_a_recorder_that_nobody_asks_ends(tmp_path: Path) -> None:
    port, kgcal = free_port(), Kgcal(tmp_path)
    command = [*kgcal.command()[:2], "flows.local.recorder", str(port), "2"]
    own = {"PREFECT_HOME": str(tmp_path / "prefect"), "PREFECT__SERVER_EPHEMERAL": "1"}
    recorder = psutil.Popen(command, env=kgcal.environment | own, stderr=subprocess.DEVNULL)
    assert recorder.wait(timeout=120) == 0
