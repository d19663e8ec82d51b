"""Run searches for tests, and read what they stored."""

import sqlite3
import subprocess
from contextlib import closing, suppress
from pathlib import Path

from mlflow.entities import Run

from tests.pipeline.command import Kgcal

TINY = (
    *("tune", "--size", "300", "--batch-size", "128", "--most-epochs", "8"),
    *("--search", "learning_rate,epochs,training_eta"),
)


def tune(kgcal: Kgcal, trials: int, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run a small search, which must succeed."""
    done = kgcal(*TINY, "--trials", str(trials), *options)
    assert done.returncode == 0, done.stderr
    return done


def started(kgcal: Kgcal, *options: str) -> "subprocess.Popen[str]":
    """Start a small search in the background."""
    kgcal.home.parent.mkdir(exist_ok=True)
    return subprocess.Popen(
        kgcal.command(*TINY, *options),
        env=kgcal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=kgcal.home.parent,
    )


def states(kgcal: Kgcal) -> list[str]:
    """Return the states of the trials in the study's file; an empty list until the file is complete."""
    for path in (kgcal.home / "tuning").glob("*.db"):
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            return [state for (state,) in file.execute("SELECT state FROM trials ORDER BY number")]
    return []


def artifact(kgcal: Kgcal, run: Run, name: str) -> Path:
    """Return the file of an artifact of a run."""
    [path] = (kgcal.home / "artifacts").rglob(f"{run.info.run_id}/artifacts/{name}")
    return path
