"""The SQLite file of the MLflow store is complete or absent, whenever the process that creates it is killed."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kgcore.errors import InputError
from tasks.tracking import connection
from tasks.tracking.connection import create_database
from tasks.tracking.store import Store

pytestmark = pytest.mark.kills

write_database = connection._write_database


def test_the_next_run_opens_the_store_whenever_its_creation_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.stages.interrupted_creation", str(tmp_path)]
    checkout = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert [kill["error"] for kill in kills] == [""] * 20
    assert all(kill["files"] == ["mlflow.db"] for kill in kills), kills
    assert sum(kill["killed"] for kill in kills) >= 10
    assert not kills[0]["database_existed"]
    assert kills[-1]["database_existed"]


@pytest.fixture(scope="module", autouse=True)
def migrated() -> Iterator[None]:
    """Create databases by MLflow's migrations, not as copies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_write_database", connection._migrate)
        yield


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a database with `create_database`, and return its path."""
    path = tmp_path_factory.mktemp("created") / "mlflow.db"
    create_database(f"sqlite:///{path}")
    return path


def test_a_created_database_stands_alone_and_has_mlflows_latest_schema(created: Path) -> None:
    assert [path.name for path in created.parent.iterdir()] == ["mlflow.db"]
    with closing(sqlite3.connect(created)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {"experiments", "runs", "logged_models", "registered_models"} <= tables


def schema(path: Path) -> list[tuple[str, ...]]:
    """Return the tables and indices of a database."""
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT type, name FROM sqlite_master ORDER BY type, name").fetchall()


def test_later_databases_are_copies_of_the_first_of_the_installation(
    tmp_path: Path, created: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "__pycache__" / "mlflow.db"
    monkeypatch.setattr(connection, "_first_database", lambda name: first)
    write_database(tmp_path / "one.db")
    with monkeypatch.context() as patch:
        patch.setattr(connection, "_migrate", None)
        write_database(tmp_path / "two.db")
    assert first.read_bytes() == (tmp_path / "one.db").read_bytes() == (tmp_path / "two.db").read_bytes()
    assert schema(first) == schema(created)


def test_an_installation_that_cannot_be_written_migrates_each_database(
    tmp_path: Path, created: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "no folder").touch()
    monkeypatch.setattr(connection, "_first_database", lambda name: tmp_path / "no folder" / "mlflow.db")
    for name in ("one.db", "two.db"):
        write_database(tmp_path / name)
        assert schema(tmp_path / name) == schema(created)


def test_an_existing_database_is_left_as_it_is(created: Path) -> None:
    before = created.stat()
    create_database(f"sqlite:///{created}")
    assert (created.stat().st_ino, created.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "postgresql://host/db", "sqlite://", "sqlite:///:memory:", "x"])
def test_nothing_is_created_for_what_is_no_sqlite_file(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    create_database(uri)
    assert list(tmp_path.iterdir()) == []


def test_partial_files_of_ended_processes_are_removed(created: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    stale = created.with_name(f".mlflow.db.{ended.pid}.partial-journal")
    current = created.with_name(f".mlflow.db.{os.getppid()}.partial")
    for path in (stale, current):
        path.touch()
    create_database(f"sqlite:///{created}")
    assert not stale.exists()
    assert current.exists()
    current.unlink()


@pytest.mark.parametrize("companion", ["-journal", "-wal", "-shm"])
def test_a_journal_of_a_deleted_database_is_not_applied_to_the_new_one(home: Path, companion: str) -> None:
    left = home / f"mlflow.db{companion}"
    left.write_bytes(b"left over")
    create_database(f"sqlite:///{home}/mlflow.db")
    assert [path.name for path in home.iterdir()] == ["mlflow.db"]


def test_two_threads_create_two_databases_at_the_same_time(tmp_path: Path) -> None:
    paths = [tmp_path / name / "mlflow.db" for name in ("one", "two")]
    with ThreadPoolExecutor(2) as threads:
        for path in paths:
            path.parent.mkdir()
        list(threads.map(lambda path: create_database(f"sqlite:///{path}"), paths))
    assert all(path.is_file() for path in paths)


def test_a_folder_in_place_of_the_database_is_named_at_once(home: Path) -> None:
    path = home / "mlflow.db"
    path.mkdir()
    with pytest.raises(InputError, match=rf"the MLflow store sqlite:///{path} cannot be opened: {path} is not a file"):
        Store(f"sqlite:///{path}")


def test_an_outdated_database_is_left_to_its_user(home: Path, created: Path) -> None:
    path = home / "mlflow.db"
    shutil.copy(created, path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '451aebb31d03'")  # MLflow's first migration
    with pytest.raises(InputError, match="cannot be opened: Detected out-of-date database schema"):
        Store(f"sqlite:///{path}")
    assert [file.name for file in home.iterdir() if file.name.startswith("mlflow")] == ["mlflow.db"]


def test_an_empty_file_becomes_a_store(home: Path) -> None:
    (home / "mlflow.db").touch()
    store = Store(f"sqlite:///{home}/mlflow.db")
    assert store.client.create_run(store.experiment_id).info.status == "RUNNING"
