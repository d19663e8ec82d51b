"""The commands that compute, with a home for each, and what each leaves: the same, whatever has happened before."""

import os
import re
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from tests.conftest import TINY_TRAINING, tiny_options
from tests.core.scored_rows import table_of_scores, written
from tests.pipeline.command import FORKS_WITH_FEW_TREES, Kgcal, all_runs, client_of, tags_of
from tests.pipeline.finished import finished

SEED = os.environ.get("SEED", "1")  # of all that is random
JSON = ("--json", "out.json")
COMMANDS = {
    "run": ("run", *tiny_options(), "--calibrators", "platt,isotonic", *JSON),
    "train": ("train", *TINY_TRAINING, "--force"),
    "score": ("score", "--force"),
    "calibrate": ("calibrate", "--calibrators", "beta", "--force"),
    "predict": ("predict", "candidates.tsv", "--base-rate", "0.3", "-o", "out.csv", *JSON),
    "discover": ("discover", "--predicate", "born_in", "--top", "40", "-o", "out.csv"),
    "explain": ("explain", "person_1", "cousin_of", "person_2", "-o", "out.json"),
    "base-rate": ("base-rate", "candidates.tsv", "--no-by-relation", "--per-positive", "5", "-o", "out.json"),
    "promote": ("promote",),
    "recalibrate": ("recalibrate", "--base-rate", "0.2", *JSON),
    "audit": ("audit", "--size", "300", *TINY_TRAINING, "--folds", "2", "-o", "out.csv"),
    "calibrate-scores": (
        *("calibrate-scores", "scores.csv", "--score", "f", "--label", "y", "--scorer", "miner", "--folds", "3"),
        *("--bootstrap-replicates", "50", "--calibrators", "beta", *JSON),
    ),
}
DIFFERS = re.compile(r'\b(m-)?[0-9a-f]{32}\b|"seconds": \{[^}]*\}|"reused": \[[^\]]*\]')


@dataclass
class Outcome:
    """What a command leaves.

    left     its output files, the metrics of its runs, and the registered versions, without ids and times
    seconds  how long it took
    bytes    how much its folder has grown
    """

    left: dict[str, object]
    seconds: float
    bytes: int


def prepared(name: str, folder: Path) -> Kgcal:
    """Return a home in which the command can run: an empty one, or one with a finished pipeline."""
    kgcal = Kgcal(folder, KGCAL_CHECKPOINT_SECONDS="0", TMPDIR=str(folder / "temporary"))
    kgcal.forks = FORKS_WITH_FEW_TREES
    (folder / "temporary").mkdir(parents=True)
    if name not in ("run", "audit", "calibrate-scores"):
        finished(folder)
    (folder / "candidates.tsv").write_text("".join(f"person_{i}\tcousin_of\tperson_{i + 7}\n" for i in range(1, 200)))
    written(folder, "scores.csv", table_of_scores(np.random.default_rng(1), 500))
    return kgcal


def outcome(name: str, kgcal: Kgcal) -> Outcome:
    """Run the command to its end, and return what it leaves."""
    folder, before, started = kgcal.home.parent, size(kgcal.home.parent), time.monotonic()
    done = kgcal(*COMMANDS[name])
    assert done.returncode == 0, done.stderr
    seconds = time.monotonic() - started
    texts = {path.name: path.read_text().replace(str(folder), "") for path in folder.glob("out.*")}
    files = {file: DIFFERS.sub("", text) for file, text in texts.items()}
    finished_runs = [run for run in all_runs(kgcal) if run.info.status == "FINISHED"]
    metrics = {(tags_of(run).stage, run.info.run_name): run.data.metrics | {"seconds": 0} for run in finished_runs}
    versions = {str(version.version): version.aliases for version in client_of(kgcal).search_model_versions()}
    return Outcome({**files, "metrics": metrics, "versions": versions}, seconds, size(folder) - before)


def size(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@cache
def undisturbed(name: str) -> Outcome:
    """Return what the command leaves in a home in which nothing happens."""
    return outcome(name, prepared(name, Path(mkdtemp())))


def check_tidy(kgcal: Kgcal) -> None:
    """Check that dead processes have left nothing: no open run, and no file that is no result."""
    assert "RUNNING" not in {run.info.status for run in all_runs(kgcal)}
    places = ("home/tmp/*", "home/locks/run-*", "home/checkpoints/*", "temporary/*", ".*")
    assert not [path for place in places for path in kgcal.home.parent.glob(place)]
