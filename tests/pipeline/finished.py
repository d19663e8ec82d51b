"""Homes in which a pipeline is finished. All tests of a session that need the same pipeline get copies of one home."""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import Any

from filelock import FileLock

from tests.conftest import tiny_options
from tests.pipeline.command import Kgcal

RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID")  # the workers of a session have the same
SESSION = Path(gettempdir(), f"kgcal-{RUN}") if RUN else Path(mkdtemp(prefix="kgcal-"))


def finished(folder: Path, *options: str) -> tuple[Kgcal, dict[str, Any]]:
    """Return a `kgcal` whose home has a finished `kgcal run` with the tiny options and these, and its JSON results."""
    kgcal = Kgcal(folder)
    first, results = _first(options)
    copy_home(first, kgcal.home)
    moved: dict[str, Any] = json.loads(results.replace(str(first), str(kgcal.home)))
    return kgcal, moved


@cache
def _first(options: tuple[str, ...]) -> tuple[Path, str]:
    """Return the home of the pipeline, which no test gets, and its results as text."""
    kgcal = Kgcal(shared_folder(" ".join(["finished", *options])))
    return kgcal.home, once(kgcal.home.parent, lambda: json.dumps(kgcal.results(*tiny_options(), *options)))


def shared_folder(name: str) -> Path:
    """Return a folder that all processes of the test session share."""
    return SESSION / hashlib.sha256(name.encode()).hexdigest()[:16]


def once(folder: Path, make: Callable[[], str]) -> str:
    """Return the text that `make` returns; if a process of the session has called it for this folder, what it got."""
    folder.mkdir(exist_ok=True, parents=True)
    with FileLock(f"{folder}.lock"):
        made = folder.with_suffix(".txt")
        if not made.exists():
            made.write_text(make())
        return made.read_text()


def copy_home(home: Path, target: Path) -> None:
    """Copy a home to a folder, and replace its path in MLflow's tables by that of the folder."""
    shutil.copytree(home, target, dirs_exist_ok=True)
    with closing(sqlite3.connect(target / "mlflow.db")) as database, database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for _, column, kind, *_ in database.execute(f'PRAGMA table_info("{table}")').fetchall():
                if "CHAR" in kind or "TEXT" in kind:
                    change = (
                        f'UPDATE "{table}" SET "{column}" = replace("{column}", ?1, ?2) WHERE instr("{column}", ?1)'
                    )
                    database.execute(change, (str(home), str(target)))
