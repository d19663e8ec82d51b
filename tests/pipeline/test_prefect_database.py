"""The SQLite database of the Prefect server of `kgcal up` is complete or absent."""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows.local.prefect_server import create_prefect_database
from kgcore.errors import InputError
from tasks.tracking import connection
from tests.conftest import use_home

pytestmark = pytest.mark.long


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(connection, "_first_database", lambda name: home / "first" / name)
    return home / "prefect"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if "prefect.db" in path.name)


def test_the_database_is_created_once_and_complete(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_prefect_database()
    assert names(folder) == ["prefect.db"]
    with closing(sqlite3.connect(folder / "prefect.db")) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert {"flow_run", "deployment", "work_pool", "automation"} <= tables
        assert database.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    before = (folder / "prefect.db").stat().st_mtime_ns
    create_prefect_database()
    assert (folder / "prefect.db").stat().st_mtime_ns == before

    use_home(folder / "another", monkeypatch)
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    create_prefect_database()  # a copy: no program runs
    assert (folder / "another/prefect/prefect.db").read_bytes() == (folder / "prefect.db").read_bytes()


def test_a_failed_creation_leaves_nothing_and_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_TIMEOUT", "soon")
    with pytest.raises(InputError, match=r"^Prefect's database .*prefect\.db cannot be created: ") as error:
        create_prefect_database()
    assert "\n" not in str(error.value)
    assert names(folder) == []


def test_another_database_that_the_environment_names_is_not_created(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_CONNECTION_URL", "postgresql+asyncpg://127.0.0.1:9/prefect")
    monkeypatch.setattr(sys, "executable", "/no/such/program")
    create_prefect_database()
    assert not folder.exists()
