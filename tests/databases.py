"""Create MLflow's databases as copies of one: its dozens of migrations, which always give the same file, run once."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tasks.tracking import new_database

_write_database = new_database._write_database


@cache
def _first() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder, "mlflow.db")
        _write_database(file)
        return file.read_bytes()


@contextmanager
def copied_databases() -> Iterator[None]:
    """In the block, the databases that this process and its forks create are copies of one that MLflow's code made.

    tests/stages/test_creation.py tests the creation itself, without copies.
    """
    content = _first()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(new_database, "_write_database", lambda file: file.write_bytes(content))
        yield
