"""`kgcal serve` beside a real MLflow server: no request fails when it is killed, and new champions take over."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import requests
from mlflow import MlflowClient

from tests.e2e.local import until
from tests.e2e.serving import started
from tests.pipeline.command import Kgcal

SMALL = ["--dataset", "family", "--size", "300", "--batch-size", "128", "--calibrators", "smoothed_isotonic"]
BODY = {"triples": [{"subject": f"person_{i}", "predicate": "cousin_of", "object": "person_1"} for i in range(2, 102)]}
WITHIN = 10.0  # seconds until a new champion answers


class Asked:
    """The replies to requests that are sent one after the other."""

    def __init__(self, address: str) -> None:
        self.address, self.failures, self.count, self.ended = address, list[str](), 0, threading.Event()

    def ask(self) -> None:
        while not self.ended.wait(0.02):
            try:
                reply = requests.post(f"{self.address}/predict", json=BODY, timeout=30)
            except requests.RequestException as error:
                self.failures.append(str(error))
                continue
            self.count += 1
            if reply.status_code != 200 or len(reply.json()["answers"]) != 100:
                self.failures.append(reply.text)


@contextmanager
def asked(address: str) -> Iterator[Asked]:
    """Send requests from four clients while the block runs. Afterwards none has failed."""
    made = Asked(address)
    clients = [threading.Thread(target=made.ask) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        yield made
    finally:
        made.ended.set()
        for client in clients:
            client.join()
    assert not made.failures
    assert made.count > 20


def health(address: str) -> dict:
    return dict(requests.get(f"{address}/health", timeout=20).json())


def served(address: str) -> str:
    """Return the version that the server says it serves."""
    return str(health(address)["model"]["uri"])


def kill(pid: int) -> None:
    """Kill a process and its children, which then close nothing."""
    process = psutil.Process(pid)
    for member in [*process.children(recursive=True), process]:
        member.send_signal(signal.SIGKILL)


def promote(kgcal: Kgcal) -> None:
    done = kgcal("promote", "--dataset", "family")
    assert "It is the new champion" in " ".join(done.stdout.split()), done.stdout + done.stderr


def champion(client: MlflowClient) -> str:
    return f"models:/kgcal-family/{client.get_model_version_by_alias('kgcal-family', 'champion').version}"


def test_a_killed_mlflow_server_costs_no_request_and_a_new_champion_takes_over(tmp_path: Path) -> None:
    behind = Kgcal(tmp_path / "server")
    with started(behind, "ui") as (mlflow, process):
        kgcal = Kgcal(tmp_path / "user", MLFLOW_TRACKING_URI=mlflow)
        kgcal.results(*SMALL, "--k", "16", "--epochs", "30")
        promote(kgcal)
        kgcal.results(*SMALL, "--k", "48", "--epochs", "80")  # the better model, which is promoted later
        with started(kgcal, "serve", "--dataset", "family") as (address, _), asked(address) as sent:
            assert served(address) == "models:/kgcal-family/1"
            kill(process.pid)
            until(lambda: not health(address)["store_answers"], 20)
            before = sent.count
            until(lambda: sent.count > before + 20)
            assert served(address) == "models:/kgcal-family/1"
            port = mlflow.rsplit(":", 1)[1]
            with started(behind, "ui", port=int(port)):
                client = MlflowClient(mlflow)
                until(lambda: bool(health(address)["store_answers"]), 20)
                promotion = threading.Thread(target=promote, args=(kgcal,))
                promotion.start()
                until(lambda: champion(client) == "models:/kgcal-family/2", 120)
                until(lambda: served(address) == "models:/kgcal-family/2", WITHIN)
                promotion.join()
                client.set_registered_model_alias("kgcal-family", "champion", "1")
                until(lambda: served(address) == "models:/kgcal-family/1", WITHIN)
