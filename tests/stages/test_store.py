"""Runs and their owners, on a real store."""

from pathlib import Path

import pytest

from kgcore.config import CalibrateConfig, CorruptConfig, PrepareConfig, TrainConfig
from tasks.jobs.pipeline import pipeline_run
from tasks.tracking.store import Store, open_store

pytestmark = pytest.mark.usefixtures("home")

CONFIGS = {
    "prepare": PrepareConfig(),
    "train": TrainConfig(),
    "corrupt": CorruptConfig(),
    "calibrate": CalibrateConfig(),
}


def test_only_dead_runs_of_this_home_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGCAL_HOME", str(tmp_path / "one"))
    store = Store(f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("KGCAL_HOME", str(tmp_path / "two"))
    other = Store(f"sqlite:///{tmp_path}/mlflow.db")
    dead = store.client.create_run(store.experiment_id, tags={"kgcal.owner": store.owner}).info.run_id
    with store.open_run("alive", {}) as alive:
        other.reap()
        assert store.run(dead).info.status == "RUNNING"
        store.reap()
        assert store.run(dead).info.status == "KILLED"
        assert store.run(alive).info.status == "RUNNING"
    store.reap()
    assert store.run(alive).info.status == "FINISHED"
    assert not list((tmp_path / "one" / "locks").glob("run-*"))


def test_a_retried_flow_run_goes_on_with_its_mlflow_run() -> None:
    with pytest.raises(ZeroDivisionError), pipeline_run(CONFIGS, "cpu", "flow-1") as first:
        raise ZeroDivisionError
    assert open_store().run(first).info.status == "FAILED"
    with pipeline_run(CONFIGS, "cpu", "flow-1") as retried:
        assert open_store().run(first).info.status == "RUNNING"
    assert retried == first
    assert open_store().run(first).info.status == "FINISHED"
    with pipeline_run(CONFIGS, "cpu", "flow-2") as other:
        assert other != first
