"""Homes in which a pipeline is finished. The tests of a process that need the same pipeline get copies of one home."""

import json
import shutil
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from tests.conftest import tiny_options
from tests.pipeline.command import Kgcal


def finished(folder: Path, *options: str) -> tuple[Kgcal, dict[str, Any]]:
    """Return a `kgcal` whose home has a finished `kgcal run` with the tiny options and these, and its JSON results."""
    kgcal = Kgcal(folder)
    first, results = _first(options)
    copy_home(first, kgcal.home)
    moved: dict[str, Any] = json.loads(results.replace(str(first), str(kgcal.home)))
    return kgcal, moved


@cache
def _first(options: tuple[str, ...]) -> tuple[Path, str]:
    """Run the pipeline. Return its home, which no test gets, and its results as text."""
    kgcal = Kgcal(Path(mkdtemp(prefix="kgcal-finished-")))
    return kgcal.home, json.dumps(kgcal.results(*tiny_options(), *options))


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
