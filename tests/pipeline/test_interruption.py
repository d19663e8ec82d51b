"""Killed in the middle of training: the next run resumes and ends with the same bits."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.pipeline.conftest import Kgcal

OPTIONS = ("--size", "600", "--k", "16", "--epochs", "60", "--batch-size", "64")


def embeddings(kgcal: Kgcal) -> bytes:
    [file] = (kgcal.home / "artifacts").rglob("embeddings.safetensors")
    return file.read_bytes()


def test_kill_minus_nine_in_train_changes_nothing(tmp_path: Path) -> None:
    killed = Kgcal(tmp_path / "killed", KGCAL_CHECKPOINT_SECONDS="0")
    undisturbed = Kgcal(tmp_path / "undisturbed")
    killed.home.parent.mkdir()
    with subprocess.Popen(
        killed.command("run", *OPTIONS), env=killed.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while not list(killed.home.glob("checkpoints/*/train.safetensors")):
            assert process.poll() is None, "the run ended before there was a checkpoint to kill it at"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL

    done = killed("run", *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "resumed from the checkpoint of epoch" in done.stderr
    assert undisturbed("run", *OPTIONS).returncode == 0
    assert embeddings(killed) == embeddings(undisturbed)
    assert not list(killed.home.glob("checkpoints/*"))

    client = MlflowClient(tracking_uri=f"sqlite:///{killed.home}/mlflow.db")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    status = [run.info.status for run in runs]
    assert status.count("KILLED") == 2  # the pipeline and its train stage
    assert "RUNNING" not in status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    kgcal = Kgcal(tmp_path, KGCAL_CHECKPOINT_SECONDS="0")
    with subprocess.Popen(
        kgcal.command("run", *OPTIONS),
        env=kgcal.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not list(kgcal.home.glob("checkpoints/*/train.safetensors")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        errors = process.communicate()[1]
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    client = MlflowClient(tracking_uri=f"sqlite:///{kgcal.home}/mlflow.db")
    runs = client.search_runs([e.experiment_id for e in client.search_experiments()])
    assert sorted({run.info.status for run in runs}) == ["FINISHED", "KILLED"]
