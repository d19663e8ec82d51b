"""`kgcal tune` as a user runs it: its output, what MLflow contains, how a search is resumed, and user errors."""

import json
import shlex
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.entities import Run
from typer.testing import CliRunner

from flows.cli.main import whole_app
from kgcore.config import CalibrateConfig, CorruptConfig, PrepareConfig, TrainConfig
from kgcore.config.base import SEARCHABLE
from kgcore.wings.tuning.space import Space
from tasks.jobs.pipeline import run_command
from tests.folders import TEST, write_folder
from tests.pipeline.command import Kgcal, client_of, runs_of, tags_of
from tests.pipeline.reading import read
from tests.pipeline.searches import TINY, artifact, tune

app = whole_app()


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, str]:
    """Run a search of three trials. Return its `kgcal` and its output."""
    kgcal = Kgcal(tmp_path_factory.mktemp("tune"))
    return kgcal, tune(kgcal, 3).stdout


def search_of(kgcal: Kgcal) -> tuple[Run, list[Run]]:
    """Return the first search, and its three trials."""
    return runs_of(kgcal, "tune")[0], runs_of(kgcal, "trial")[:3]


def test_each_trial_is_a_run_under_the_search(first: tuple[Kgcal, str]) -> None:
    kgcal, _ = first
    parent, trials = search_of(kgcal)
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", "tune family transe self_adversarial")
    assert len(trials) == 3
    for number, run in enumerate(trials):
        assert run.info.status == "FINISHED"
        assert tags_of(run).parent == parent.info.run_id
        assert run.data.params["trial"] == str(number)
        assert [data.dataset.name for data in run.inputs.dataset_inputs] == ["family"]


def test_a_trial_logs_its_losses_and_figures_by_epoch(first: tuple[Kgcal, str]) -> None:
    kgcal, _ = first
    client = client_of(kgcal)
    for run in search_of(kgcal)[1]:
        assert set(run.data.metrics) == {"brier", "log_loss", "accuracy", "loss"}
        losses = client.get_metric_history(run.info.run_id, "loss")
        assert [point.step for point in losses] == list(range(1, len(losses) + 1))
        measured = [point.step for point in client.get_metric_history(run.info.run_id, "brier")]
        assert measured[-1] == len(losses)
        state = tags_of(run).state
        assert state in ("complete", "pruned")
        if state == "complete":
            assert len(measured) == 4
            assert run.data.params["epochs"] == str(len(losses))


def test_the_search_holds_the_best_trial_and_the_table_of_all(first: tuple[Kgcal, str]) -> None:
    kgcal, _ = first
    parent, trials = search_of(kgcal)
    config = TrainConfig(**json.loads(artifact(kgcal, parent, "best.json").read_text()))
    assert (config.batch_size, config.k) == (128, 100)
    assert parent.data.params["best.learning_rate"] == str(config.learning_rate)
    assert (parent.data.params["dataset"], parent.data.params["metric"]) == ("family", "brier")
    table = pd.read_csv(artifact(kgcal, parent, "trials.csv"), float_precision="round_trip")
    assert table["run"].tolist() == [run.info.run_id for run in trials]
    complete = table[table["state"] == "complete"]
    top = complete.loc[complete["value"].idxmin()]
    assert (top["value"], top["learning_rate"]) == (parent.data.metrics["brier"], config.learning_rate)
    tags = tags_of(parent)
    assert tags.best == top["run"]
    assert tags.counts == table["state"].value_counts().to_dict()


def test_the_terminal_shows_the_best_trial_and_its_command(first: tuple[Kgcal, str]) -> None:
    kgcal, printed = first
    parent, _ = search_of(kgcal)
    table = pd.read_csv(artifact(kgcal, parent, "trials.csv"), float_precision="round_trip")
    top = table.loc[table["value"].where(table["state"] == "complete").idxmin()]
    summary = (
        f"Best Brier: {top['value']:.4f} in trial {top['trial']}, {table['value'][0]:.4f} with the initial settings."
    )
    assert summary in printed
    config = TrainConfig(**json.loads(artifact(kgcal, parent, "best.json").read_text()))
    assert run_command([PrepareConfig(size=300), config]) in printed


def test_the_printed_command_trains_with_the_best_settings(first: tuple[Kgcal, str]) -> None:
    kgcal, printed = first
    [line] = [line for line in printed.splitlines() if line.startswith("kgcal run ")]
    quick = ("--calibrators", "platt", "--calibration-eta", "3", "--bootstrap-replicates", "50")
    done = kgcal(*shlex.split(line)[1:], *quick)
    assert done.returncode == 0, done.stderr
    parent, _ = search_of(kgcal)
    [train] = runs_of(kgcal, "train")
    assert tags_of(train).config == json.loads(artifact(kgcal, parent, "best.json").read_text())


def test_the_same_command_resumes_the_search_and_repeats_no_trial(first: tuple[Kgcal, str]) -> None:
    kgcal, _ = first
    before = len(runs_of(kgcal, "trial"))
    done = tune(kgcal, 5)
    assert "3 of 5 trials were run before" in done.stderr
    assert len(runs_of(kgcal, "trial")) == before + 2
    parent = runs_of(kgcal, "tune")[-1]
    table = pd.read_csv(artifact(kgcal, parent, "trials.csv"), float_precision="round_trip")
    assert table["trial"].tolist() == list(range(5))
    assert [tags_of(run).parent for run in runs_of(kgcal, "trial")].count(parent.info.run_id) == 2
    again = tune(kgcal, 5)
    assert len(runs_of(kgcal, "trial")) == before + 2
    last = [text.strip().splitlines()[-1] for text in (done.stdout, again.stdout)]
    assert last[0] == last[1]


def test_another_seed_is_another_search_and_force_begins_one_anew(first: tuple[Kgcal, str]) -> None:
    kgcal, _ = first
    other = kgcal(*TINY, "--trials", "1", "--tune-seed", "7")
    assert other.returncode == 0
    assert len(list((kgcal.home / "tuning").glob("*.db"))) == 2
    anew = tune(kgcal, 1, "--force")
    assert "were run before" not in anew.stderr
    assert "1 trial: 1 complete" in anew.stdout


def test_the_test_split_is_not_part_of_a_search(tmp_path: Path) -> None:
    """Two folders that differ only in test.txt have one study. The second search does not run its trials again."""
    kgcal, folder = Kgcal(tmp_path), tmp_path / "mine"
    printed = []
    for test in (TEST, TEST[:50]):
        write_folder(folder, test=test)
        options = ("--dataset", str(folder), "--epochs", "4", "--k", "8", "--search", "learning_rate,training_eta")
        done = kgcal("tune", *options, "--batch-size", "128", "--trials", "2", "--base-rate", "0.3")
        assert done.returncode == 0, done.stderr
        printed.append([line for line in done.stdout.splitlines() if not line.startswith(("run:", "MLflow:"))])
    assert printed[0] == printed[1]
    assert f"--dataset {folder} " in printed[0][-1]
    assert "--base-rate 0.3" in printed[0][-1]
    assert len(runs_of(kgcal, "trial")) == 2
    assert len(runs_of(kgcal, "prepare")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "ece"), "metric is 'ece': it must be one of brier, log_loss, accuracy, mrr"),
        (("--search", "colour"), "search is 'colour': it must be one of learning_rate, regulariser"),
        (("--base-rate", "1.5"), "base_rate is 1.5: it must be above 0 and below 1"),
        (
            ("--calibration-strategy", "near_miss"),
            "calibration_strategy is near_miss: a search needs strategies that draw without a model",
        ),
        (("--most-epochs", "2"), "most_epochs is 2: it must be at least 4"),
        (("--model-options", "colour=2"), "has no option 'colour'"),
    ],
)
def test_a_mistake_is_reported_before_anything_runs(home: Path, options: Any, message: str) -> None:
    done = CliRunner().invoke(app, ["tune", "--size", "300", *options])
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (home / "mlflow.db").exists()


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_the_command_line_reads_the_settings_of_a_command_back(seed: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    base = TrainConfig(model="rotate", model_options={"norm": 2.0}, loss="pairwise", loss_options={"margin": 1.5})
    configs = {
        "prepare": PrepareConfig(dataset="a folder/of mine", size=300),
        "train": Space(base, SEARCHABLE, 100).suggest(study.ask()),
        "corrupt": CorruptConfig(calibration_strategy={"typed": 0.25, "uniform": 0.75}, calibration_filtered=False),
        "calibrate": CalibrateConfig(base_rate=0.07, calibrators=("isotonic",)),
    }
    words = shlex.split(run_command(configs.values()))
    assert words[:4] == ["kgcal", "run", "--preset", "none"]  # a preset would choose the missing settings
    assert read(words[4:], {name: type(config) for name, config in configs.items()}) == configs
