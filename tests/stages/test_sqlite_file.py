"""A new SQLite file is complete under its name, or absent."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tasks.tracking.connection import new_sqlite_file

WRITE_AHEAD = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA journal_mode = WAL")
database.execute("CREATE TABLE notes (text)")
database.execute("INSERT INTO notes VALUES ('kept')")
database.commit()
os._exit(0)
"""


def write(path: Path, text: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE notes (text)")
        database.execute("INSERT INTO notes VALUES (?)", (text,))


def write_twice(path: Path) -> None:
    """Fail after the first of two writes."""
    for text in ("first", "second"):
        write(path, text)


def read(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [text for (text,) in database.execute("SELECT text FROM notes")]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_file_appears_after_the_block(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "notes.db"
    with new_sqlite_file(path) as partial:
        write(partial, "kept")
        assert not path.exists()
    assert read(path) == ["kept"]
    assert names(path.parent) == ["notes.db"]


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError), new_sqlite_file(tmp_path / "notes.db") as partial:
        write_twice(partial)
    assert names(tmp_path) == []


def test_what_a_killed_program_left_in_its_write_ahead_log_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with new_sqlite_file(path) as partial:
        subprocess.run([sys.executable, "-c", WRITE_AHEAD, str(partial)], check=True)
        assert Path(f"{partial}-wal").stat().st_size > 0
    assert names(tmp_path) == ["notes.db"]
    assert read(path) == ["kept"]


def test_a_file_that_another_program_has_created_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with new_sqlite_file(path) as partial:
        write(partial, "second")
        write(path, "first")
    assert read(path) == ["first"]
    assert names(tmp_path) == ["notes.db"]


def test_a_file_system_without_hard_links_gets_a_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr("os.link", refuse)
    with new_sqlite_file(tmp_path / "notes.db") as partial:
        write(partial, "kept")
    assert read(tmp_path / "notes.db") == ["kept"]
    assert names(tmp_path) == ["notes.db"]
