"""What a killed process leaves is removed by the next process that opens the store."""

import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository

from flows.cli.terminal import check_target
from kgcore.answer.sink import sink
from tasks.tracking import store as stores
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tasks.workspace.settings import home, sweep, temporary_folder


def killed(work: Callable[[], None]) -> None:
    """Do the work in another process, which then kills itself."""
    if (child := os.fork()) == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.usefixtures("home")
def test_the_next_process_ends_the_runs_and_removes_the_files_of_a_killed_one(tmp_path: Path) -> None:
    open_store()  # creates the database
    target, other = tmp_path / "answers.csv", tmp_path / f".answers.csv.{os.getpid()}.partial"
    other.touch()  # of a living process

    def work() -> None:
        check_target(target, "--output")
        store = stores.Store(f"sqlite:///{home()}/mlflow.db")
        with store.open_run("predict", RunTags(stage="predict")), temporary_folder() as folder, sink(target):
            (folder / "big").write_bytes(bytes(1000))
            os.kill(os.getpid(), signal.SIGKILL)

    killed(work)
    assert len(list(tmp_path.glob(".answers.csv.*"))) == 2
    assert list((home() / "tmp").glob("*/*/big"))
    with temporary_folder() as living:
        stores._store.cache_clear()  # as in a new process
        store = open_store()
        assert living.is_dir()
    assert list(tmp_path.glob(".answers.csv.*")) == [other]
    assert not list((home() / "tmp").glob("*/*/big"))
    assert [run.status for run in store.find(RunTags(stage="predict"), status=None)] == ["KILLED"]
    assert not list((home() / "locks").glob("run-*"))


@pytest.mark.usefixtures("home")
def test_a_process_that_is_killed_while_it_logs_json_leaves_no_temporary_file(tmp_path: Path) -> None:
    open_store()
    (tmp_path / "temporary").mkdir()

    def work() -> None:
        tempfile.tempdir = str(tmp_path / "temporary")
        LocalArtifactRepository.log_artifact = lambda *arguments, **options: os.kill(os.getpid(), signal.SIGKILL)
        store = stores.Store(f"sqlite:///{home()}/mlflow.db")
        with store.open_run("predict", RunTags(stage="predict")) as run_id:
            store.log_json(run_id, {"a": 1}, "found/a.json")

    killed(work)
    assert list((home() / "tmp").rglob("a.json"))
    sweep()
    assert not [*(home() / "tmp").iterdir(), *(tmp_path / "temporary").iterdir()]


@pytest.mark.usefixtures("home")
def test_a_sweep_removes_nothing_else(tmp_path: Path) -> None:
    kept = tmp_path / ".answers.csv.swp"
    kept.touch()
    killed(lambda: check_target(tmp_path / "answers.csv"))
    (home() / "tmp" / "somebody.txt").touch()
    sweep()
    assert kept.is_file()
    assert (home() / "tmp" / "somebody.txt").is_file()
