"""Runs and their owners, on a real store."""

from pathlib import Path
from typing import Any

import pytest

from kgcore.config import PipelineConfigs
from tasks.jobs.manifest import resolve
from tasks.jobs.pipeline import pipeline_run
from tasks.tracking.record import DatasetId, RunTags
from tasks.tracking.store import Store, open_store

pytestmark = pytest.mark.usefixtures("home")


def test_only_dead_runs_of_this_home_are_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGCAL_HOME", str(tmp_path / "one"))
    store = Store(f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("KGCAL_HOME", str(tmp_path / "two"))
    other = Store(f"sqlite:///{tmp_path}/mlflow.db")
    owned = RunTags(owner=store.owner).to_mlflow()
    dead = store.client.create_run(store.experiment_id, tags=owned).info.run_id
    with store.open_run("alive", RunTags()) as alive:
        other.mark_dead_runs()
        assert store.get(dead).status == "RUNNING"
        store.mark_dead_runs()
        assert store.get(dead).status == "KILLED"
        assert store.get(alive).status == "RUNNING"
    store.mark_dead_runs()
    assert store.get(alive).status == "FINISHED"
    assert not list((tmp_path / "one" / "locks").glob("run-*"))


def test_an_interruption_while_a_run_begins_or_ends_leaves_it_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    client = store.client
    create_run, set_terminated = client.create_run, client.set_terminated

    def created_then_interrupted(*values: Any, **options: Any) -> None:
        create_run(*values, **options)
        raise KeyboardInterrupt

    def interrupted_instead_of_finished(run_id: str, status: str) -> None:
        if status == "FINISHED":
            raise KeyboardInterrupt
        set_terminated(run_id, status)

    monkeypatch.setattr(client, "create_run", created_then_interrupted)
    with pytest.raises(KeyboardInterrupt), store.open_run("begins", RunTags(stage="train")):
        pytest.fail("the block of a run that was interrupted at its start")
    monkeypatch.setattr(client, "create_run", create_run)
    monkeypatch.setattr(client, "set_terminated", interrupted_instead_of_finished)
    with pytest.raises(KeyboardInterrupt), store.open_run("ends", RunTags(stage="train")):
        pass
    runs = store.find(RunTags(stage="train"), newest=10, status=None)
    assert [(run.name, run.status) for run in runs] == [("ends", "KILLED"), ("begins", "KILLED")]


def test_a_retried_flow_run_resumes_its_mlflow_run() -> None:
    configs = PipelineConfigs()
    with pytest.raises(ZeroDivisionError), pipeline_run(configs, "cpu", "flow-1") as first:
        raise ZeroDivisionError
    assert open_store().get(first).status == "FAILED"
    with pipeline_run(configs, "cpu", "flow-1") as retried:
        assert open_store().get(first).status == "RUNNING"
    assert retried == first
    assert open_store().get(first).status == "FINISHED"
    with pipeline_run(configs, "cpu", "flow-2") as other:
        assert other != first


def test_more_metrics_than_mlflow_accepts_at_once_are_all_logged_with_the_parameters() -> None:
    store, metrics = open_store(), {f"metric_{number}": float(number) for number in range(2100)}
    with store.open_run("many", RunTags()) as run_id:
        store.log_model_metrics(
            run_id, {None: metrics}, DatasetId("wn11", "d1"), {"k": 16, "sides": ("subject", "object")}
        )
    run = store.get(run_id)
    assert run.metrics == metrics
    assert run.params == {"k": "16", "sides": "subject, object"}


def test_only_a_run_that_had_finished_is_known_without_a_look_into_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store()
    with store.open_run("stage", RunTags(stage="train")) as run_id:
        assert store.known(run_id).status == "RUNNING"
    assert store.known(run_id) == store.get(run_id)
    with store.open_run("stage", RunTags(stage="train"), resume=run_id):
        assert store.get(run_id).status == store.known(run_id).status == "RUNNING"
    finished = store.get(run_id)
    monkeypatch.setattr(store, "client", None)  # whoever asks it fails
    assert store.known(run_id) == finished


def test_a_run_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is some SQL statements, and a pipeline makes hundreds."""
    store = open_store()
    asked: list[str] = []
    get_run, client = store.client.get_run, store.client
    monkeypatch.setattr(client, "get_run", lambda run_id: asked.append(run_id) or get_run(run_id))
    with store.open_run("stage", RunTags(stage="train")) as trained:
        model = store.log_model(trained, 0, "model", {}, {}, lambda folder: (folder / "numbers").write_text("12"))
        assert store.sizes(trained) == {f"models/{model}/numbers": 2}
    assert asked == []  # the process knows what it has logged
    assert resolve("train", f"train:{trained}").run_id == trained
    assert asked == [trained]
    with store.open_run("later", RunTags(stage="score", inputs={"train": trained})) as later:
        pass
    assert resolve("train", later).run_id == trained
    assert asked == [trained, later, trained]
