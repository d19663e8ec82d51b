"""`kgcal reproduce` with small graphs instead of the paper's data sets."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from flows.cli.main import whole_app
from kgcore.config import TrainConfig
from kgcore.errors import InputError
from kgcore.registries import DATASETS
from kgcore.wings.reproduction import grid as grid_module
from kgcore.wings.reproduction.compare import COLUMNS
from tests.pipeline.command import small_family

HELD_OUT = Path(os.environ.get("KGCAL_MIRROR", "")) / "yago39k-heldout-only.zip"
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("home")]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replace wn11 and wn18rr by a small family graph, and shorten each training to a second."""
    family = small_family()
    kept = {name: DATASETS.get(name) for name in ("wn11", "wn18rr")}
    for name in kept:
        DATASETS.remove(name)
    DATASETS.add("wn11", replace(family, name="wn11"))
    DATASETS.add("wn18rr", replace(family, name="wn18rr", labelled=False))

    def tiny(name: str, dataset: str, model: str, loss: str) -> TrainConfig:
        assert name in ("default", "paper")
        return TrainConfig(model=model, loss=loss, k=8, epochs=2, batch_size=512)

    monkeypatch.setattr(grid_module, "training", tiny)
    yield
    for name, spec in kept.items():
        DATASETS.remove(name)
        DATASETS.add(name, spec)


def kgcal(*arguments: str) -> tuple[int, str]:
    """Run a command in this process, and return its exit code and output."""
    result = CliRunner().invoke(whole_app(), list(arguments))
    return result.exit_code, result.output


def test_the_grid_has_the_cells_of_the_papers_tables() -> None:
    every = grid_module.grid(("all",), (), ("default",))
    assert set(every) == set(grid_module.TABLES)
    assert {table: len(cells) for table, cells in every.items()} == {
        "results": 12,
        "losses": 48,
        "classification": 12,
        "base-rate": 38,
        "sensitivity": 36,
        "ranks": 20,
        "thresholds": 3,
        "reliability": 12,
    }
    assert set(every["results"]) <= set(every["losses"])  # both tables use the same run


@pytest.mark.parametrize(
    ("tables", "datasets", "message"),
    [
        (("result",), (), "unknown table 'result': the known ones are all"),
        (("results",), ("family",), "the paper has no data set 'family'"),
        (("base-rate",), ("wn11",), "base-rate covers no run on wn11"),
    ],
)
def test_a_table_or_data_set_that_the_paper_lacks_is_reported(
    tables: tuple[str, ...], datasets: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        grid_module.grid(tables, datasets, ("default",))


def test_a_reproduction_writes_its_table_and_page_and_a_second_one_computes_nothing(home: Path, tmp_path: Path) -> None:
    target = tmp_path / "figures.csv"
    arguments = ("reproduce", "thresholds", "reliability", "--dataset", "wn11")
    code, output = kgcal(*arguments, "--csv", str(target))
    assert code == 0, output
    frame = pd.read_csv(target)
    assert list(frame.columns) == COLUMNS
    errors = frame[frame["table"] == "reliability"]
    assert len(errors) == 4 * 5  # losses; uncalibrated, and two calibrators by two kinds of negatives
    assert errors[["ours", "paper"]].notna().all().all()
    assert len(set(errors["run_id"])) == 4
    assert len(frame[frame["table"] == "thresholds"]) == 4 * 10  # two rules' thresholds and accuracies of ten relations
    page = next((home / "reports").glob("*/reproduction.html")).read_text()
    for text in ("multiclass NLL", "Thresholds per relation", "best calibrated", "uncalibrated, by loss"):
        assert text in page
    again, output = kgcal(*arguments, "--csv", str(target))
    assert again == 0, output
    pd.testing.assert_frame_equal(pd.read_csv(target), frame)  # the run ids, too: nothing was run again


@pytest.mark.skipif(not HELD_OUT.is_file(), reason="KGCAL_MIRROR is not a folder with the held-out files of YAGO39K")
def test_yago39k_runs_where_somebody_has_its_training_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    shutil.copy(HELD_OUT, mirror)
    monkeypatch.setenv("KGCAL_MIRROR", str(mirror))
    arguments = ("reproduce", "thresholds", "--dataset", "yago39k", "--dataset", "wn11", "--csv", str(tmp_path / "csv"))
    code, output = kgcal(*arguments)
    assert code == 2
    assert "no YAGO39K/Train/triple2id.txt" in output
    assert "yago39k transe self_adversarial default failed" in output
    assert set(pd.read_csv(tmp_path / "csv").dropna(subset="ours")["dataset"]) == {"wn11"}

    rng, size = np.random.default_rng(0), 39_374
    every = np.concatenate([np.arange(size), rng.integers(size, size=size)])
    triples = np.stack([every, rng.permutation(every), rng.integers(37, size=len(every))], axis=1)
    lines = [f"{subject} {thing} {predicate}" for subject, thing, predicate in np.unique(triples, axis=0)]
    train = mirror / "YAGO39K" / "Train" / "triple2id.txt"
    train.parent.mkdir(parents=True)
    train.write_text("\n".join([str(len(lines)), *lines]) + "\n")
    code, output = kgcal(*arguments)
    assert code == 0, output
    frame = pd.read_csv(tmp_path / "csv").query("dataset == 'yago39k' and metric == 'accuracy'")
    assert frame["ours"].between(0, 1).all()
    assert len(frame) > 2 * 30  # two rules, most of 37 predicates
