"""A graph with confidences through the real flow, and the jobs after it."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.folders import write_folder
from tests.pipeline.command import Kgcal
from tests.pipeline.refusals import refused, written

SMALL = (
    "--preset",
    "none",
    "--model",
    "distmult",
    "--loss",
    "confidence",
    "--epochs",
    "8",
    "--k",
    "8",
    "--training-eta",
    "2",
)
BATCH = ("--batch-size", "64", "--chunk-size", "16", "--learning-rate", "0.05", "--bootstrap-replicates", "50")


@pytest.fixture(scope="module")
def kgcal(tmp_path_factory: pytest.TempPathFactory) -> Kgcal:
    return Kgcal(tmp_path_factory.mktemp("confidences"))


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a graph in which the predicate and the parities of the entities decide the confidence."""
    rng = np.random.default_rng(0)
    triples = rng.permutation(np.unique(rng.integers(0, [40, 2, 40], (1000, 3)), axis=0))
    c = 0.1 + 0.4 * triples[:, 1] + 0.2 * (triples[:, [0, 2]] % 2).sum(axis=1)
    rows = [f"e{s}\tr{p}\te{o}\t{x:.3f}" for (s, p, o), x in zip(triples, c, strict=True)]
    return write_folder(tmp_path_factory.mktemp("data") / "graded", rows[:550], rows[550:-120], rows[-120:])


@pytest.fixture(scope="module")
def summary(kgcal: Kgcal, graded: Path) -> dict[str, object]:
    target = graded.parent / "out.json"
    done = kgcal("run", "--dataset", str(graded), "--confidence", "4", *SMALL, *BATCH, "--json", str(target))
    assert done.returncode == 0, done.stderr
    assert "mean" in done.stdout
    assert "with the mean confidence 0.5" in " ".join(done.stdout.split())
    assert "Measured on 120 test triples with confidences" in json.loads(target.read_text())["notes"][0]
    found: dict[str, object] = json.loads(target.read_text())
    return found


def test_probabilities_are_better_than_the_constants(kgcal: Kgcal, summary: dict[str, object]) -> None:
    metrics = summary["metrics"]
    assert isinstance(metrics, dict)
    constant, by_relation = metrics["constant"], metrics["constant_by_relation"]
    best = metrics["ground_truth"]["per_relation"]
    assert best["brier"] < 0.8 * by_relation["brier"] < constant["brier"]
    assert best["brier"] == pytest.approx(best["mean_squared_error"])
    assert best["mean_absolute_error"] < by_relation["mean_absolute_error"]
    runs = summary["runs"]
    assert isinstance(runs, dict)
    [path] = (kgcal.home / "artifacts").rglob(f"{runs['classify']}/artifacts/predictions.parquet")
    rows = pd.read_parquet(path)
    q, c = rows["q.ground_truth.per_relation"], rows["confidence"]
    assert best["mean_squared_error"] == pytest.approx(((q - c) ** 2).mean())
    [page] = (kgcal.home / "artifacts").rglob(f"{runs['report']}/artifacts/report.html")
    assert "mean absolute error" in page.read_text()


def test_the_champion_is_judged_by_confidences(kgcal: Kgcal, summary: dict[str, object]) -> None:
    done = kgcal("promote", "--dataset", "graded")
    assert done.returncode == 0, done.stderr
    assert "on 120 triples its Brier score is significantly lower" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("confidence", "line", "message"),
    [
        ("4", "e0\tr0\te1\t1.5", "train.txt, line 551: confidence is '1.5': it must be a number from 0 to 1"),
        ("5", "e0\tr0\te1\t0.5", "train.txt has no column 5: --confidence must be a position from 1 to 4"),
    ],
)
def test_a_wrong_confidence_leaves_nothing(
    kgcal: Kgcal, graded: Path, tmp_path: Path, confidence: str, line: str, message: str
) -> None:
    own = write_folder(tmp_path / "wrong", [*(graded / "train.txt").read_text().splitlines(), line])
    for name in ("valid.txt", "test.txt"):
        (own / name).write_text((graded / name).read_text())
    before = written(kgcal)
    refused(kgcal, message, "run", "--dataset", str(own), "--confidence", confidence)
    assert written(kgcal) == before


def test_a_known_data_set_has_no_confidences(kgcal: Kgcal) -> None:
    refused(kgcal, "the data set wn11 has no confidences", "prepare", "--dataset", "wn11", "--confidence", "4")
