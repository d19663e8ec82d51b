"""`kgcal tune` as a user runs it: what is printed, what MLflow holds, going on, interrupting, sharing."""

import json
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from mlflow.entities import Run
from typer.testing import CliRunner

from flows.cli.commands import app
from flows.cli.options import command
from kgcore.config import CalibrateConfig, CorruptConfig, PrepareConfig, TrainConfig
from kgcore.config.choices import SEARCHABLE
from kgcore.tuning.space import Space
from tasks.tracking.names import run_command
from tests.pipeline.conftest import CHECKOUT, Kgcal, all_runs, client_of

TINY = ("tune", "--size", "300", "--batch-size", "128", "--most-epochs", "8", "--search", "learning_rate,epochs,eta")
TRIALS = "--trials"


def tune(kgcal: Kgcal, trials: int, *options: str) -> "subprocess.CompletedProcess[str]":
    done = kgcal(*TINY, TRIALS, str(trials), *options)
    assert done.returncode == 0, done.stderr
    return done


def of_stage(kgcal: Kgcal, stage: str) -> list[Run]:
    """Its runs, the first first."""
    runs = [run for run in all_runs(kgcal) if run.data.tags.get("kgcal.stage") == stage]
    return sorted(runs, key=lambda run: run.info.start_time)


def artifact(kgcal: Kgcal, run: Run, name: str) -> Path:
    [path] = (kgcal.home / "artifacts").rglob(f"{run.info.run_id}/artifacts/{name}")
    return path


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, str]:
    """A search of three trials, and what it printed."""
    kgcal = Kgcal(tmp_path_factory.mktemp("tune"))
    return kgcal, tune(kgcal, 3).stdout


def test_mlflow_holds_the_search_and_its_trials(first: tuple[Kgcal, str]) -> None:
    kgcal, printed = first
    [parent] = of_stage(kgcal, "tune")
    trials = of_stage(kgcal, "trial")
    assert (parent.info.status, parent.info.run_name) == ("FINISHED", "tune family transe self_adversarial")
    assert len(trials) == 3
    client = client_of(kgcal)
    for number, run in enumerate(trials):
        assert run.info.status == "FINISHED"
        assert run.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert run.data.tags["kgcal.state"] in ("complete", "pruned")
        assert run.data.params["trial"] == str(number)
        assert set(run.data.metrics) == {"brier", "log_loss", "accuracy", "loss"}
        assert [data.dataset.name for data in run.inputs.dataset_inputs] == ["family"]
        losses = client.get_metric_history(run.info.run_id, "loss")
        assert [point.step for point in losses] == list(range(1, len(losses) + 1))
        measured = [point.step for point in client.get_metric_history(run.info.run_id, "brier")]
        assert measured[-1] == len(losses)
        if run.data.tags["kgcal.state"] == "complete":
            assert len(measured) == 4
            assert run.data.params["epochs"] == str(len(losses))

    best = json.loads(artifact(kgcal, parent, "best.json").read_text())
    config = TrainConfig(**best)
    assert (config.batch_size, config.k) == (128, 100)
    assert parent.data.params["best.learning_rate"] == str(config.learning_rate)
    assert (parent.data.params["dataset"], parent.data.params["metric"]) == ("family", "brier")
    table = pd.read_csv(artifact(kgcal, parent, "trials.csv"))
    assert table["run"].tolist() == [run.info.run_id for run in trials]
    complete = table[table["state"] == "complete"]
    top = complete.loc[complete["value"].idxmin()]
    assert (top["value"], top["learning_rate"]) == (parent.data.metrics["brier"], config.learning_rate)
    assert parent.data.tags["kgcal.best"] == top["run"]
    told = f"Best Brier: {top['value']:.4f} of trial {top['trial']}, {table['value'][0]:.4f} where it started."
    assert told in printed
    assert run_command([PrepareConfig(size=300), config]) in printed


def test_the_printed_command_trains_what_was_found(first: tuple[Kgcal, str]) -> None:
    kgcal, printed = first
    [line] = [line for line in printed.splitlines() if line.startswith("kgcal run ")]
    done = kgcal(*shlex.split(line)[1:])
    assert done.returncode == 0, done.stderr
    [parent] = of_stage(kgcal, "tune")
    [train] = of_stage(kgcal, "train")
    assert json.loads(train.data.tags["kgcal.config"]) == json.loads(artifact(kgcal, parent, "best.json").read_text())


def test_the_same_command_goes_on_with_the_search_and_does_not_repeat_it(first: tuple[Kgcal, str]) -> None:
    kgcal, _ = first
    before = len(of_stage(kgcal, "trial"))
    done = tune(kgcal, 5)
    assert "3 of 5 trials were run before" in done.stderr
    assert len(of_stage(kgcal, "trial")) == before + 2
    parent = of_stage(kgcal, "tune")[-1]
    table = pd.read_csv(artifact(kgcal, parent, "trials.csv"))
    assert table["trial"].tolist() == list(range(5))
    assert len([r for r in of_stage(kgcal, "trial") if r.data.tags["mlflow.parentRunId"] == parent.info.run_id]) == 2
    again = tune(kgcal, 5)
    assert len(of_stage(kgcal, "trial")) == before + 2
    last = [text.strip().splitlines()[-1] for text in (done.stdout, again.stdout)]
    assert last[0] == last[1]
    other = kgcal(*TINY, TRIALS, "1", "--tune-seed", "7")
    assert other.returncode == 0
    assert len(list((kgcal.home / "tuning").glob("*.db"))) == 2
    anew = tune(kgcal, 1, "--force")
    assert "were run before" not in anew.stderr
    assert "1 trials: 1 complete" in anew.stdout


def test_the_test_split_is_not_part_of_a_search(tmp_path: Path) -> None:
    """Two folders that differ in test.txt alone: one study, whose trials the second does not run again."""
    kgcal = Kgcal(tmp_path)
    rows = [f"e{i % 40}\tr{i % 2}\te{(i % 40 + i // 40 + 1) % 40}" for i in range(1200)]
    printed = []
    for test in (rows[1050:], rows[1050:1100]):
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        for name, part in (("train", rows[:900]), ("valid", rows[900:1050]), ("test", test)):
            (folder / f"{name}.txt").write_text("\n".join(part) + "\n")
        options = ("--dataset", str(folder), "--epochs", "4", "--k", "8", "--search", "learning_rate,eta")
        done = kgcal("tune", *options, "--batch-size", "128", TRIALS, "2", "--base-rate", "0.3")
        assert done.returncode == 0, done.stderr
        printed.append([line for line in done.stdout.splitlines() if not line.startswith("MLflow run")])
    assert printed[0] == printed[1]
    assert f"--dataset {tmp_path / 'mine'} " in printed[0][-1]
    assert "--base-rate 0.3" in printed[0][-1]
    assert len(of_stage(kgcal, "trial")) == 2
    assert len(of_stage(kgcal, "prepare")) == 2


def started(kgcal: Kgcal, *options: str) -> "subprocess.Popen[str]":
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
    """Those of the trials in the study's file, none while it is being made."""
    for path in (kgcal.home / "tuning").glob("*.db"):
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            return [state for (state,) in file.execute("SELECT state FROM trials ORDER BY number")]
    return []


def wait_for_second_trial(process: "subprocess.Popen[str]", kgcal: Kgcal) -> None:
    """Until a trial is complete and another runs, in the study and in MLflow."""
    deadline = time.monotonic() + 240
    while "COMPLETE" not in (now := states(kgcal)) or now[-1] != "RUNNING" or len(of_stage(kgcal, "trial")) < len(now):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_search_leaves_nothing_running_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    kgcal = Kgcal(tmp_path)
    process = started(kgcal, TRIALS, "500", "--most-epochs", "60")
    wait_for_second_trial(process, kgcal)
    process.send_signal(number)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in errors
    if number == signal.SIGINT:  # with the best so far
        assert "Interrupted: the same command goes on." in printed
        assert "\nkgcal run --preset none --size 300" in printed
        assert of_stage(kgcal, "tune")[0].info.status == "FINISHED"
        assert artifact(kgcal, of_stage(kgcal, "tune")[0], "best.json").is_file()
    if number != signal.SIGKILL:
        assert "RUNNING" not in {run.info.status for run in all_runs(kgcal)}
        assert "RUNNING" not in states(kgcal)
    counted = [state for state in states(kgcal) if state in ("COMPLETE", "PRUNED")]
    done = kgcal(*TINY, TRIALS, str(len(counted) + 1), "--most-epochs", "60")
    assert done.returncode == 0, done.stderr
    assert f"{len(counted) + 1} trials: " in done.stdout
    assert "RUNNING" not in {run.info.status for run in all_runs(kgcal)}
    assert [run.info.status for run in of_stage(kgcal, "trial")].count("KILLED") == 1
    assert sorted(states(kgcal)) == sorted([*counted, "COMPLETE", "FAIL"]) or states(kgcal)[-1] == "PRUNED"


def test_two_processes_share_a_search(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    both = [started(kgcal, TRIALS, "6") for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors
    assert len(states(kgcal)) == 6
    assert set(states(kgcal)) <= {"COMPLETE", "PRUNED"}
    trials = of_stage(kgcal, "trial")
    assert len(trials) == 6
    settings = [{name: value for name, value in run.data.params.items() if name != "trial"} for run in trials]
    assert len({frozenset(own.items()) for own in settings}) == 6  # no trial was run twice
    assert {run.info.status for run in all_runs(kgcal)} == {"FINISHED"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "ece"), "metric is 'ece': it must be one of brier, log_loss, accuracy, mrr"),
        (("--search", "colour"), "search is 'colour': it must be one of learning_rate, regulariser"),
        (("--base-rate", "1.5"), "base_rate is 1.5: it must be above 0 and below 1"),
        (("--calibration-strategy", "near_miss"), "a search needs corruptions that no model draws"),
        (("--most-epochs", "2"), "most_epochs is 2: it must be at least 4"),
        (("--model-options", "colour=2"), "has no option 'colour'"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_run(home: Path, options: Any, message: str) -> None:
    done = CliRunner().invoke(app, ["tune", "--size", "300", *options])
    assert done.exit_code == 2
    assert message in done.stderr
    assert not (home / "mlflow.db").exists()


@given(seed=st.integers(0, 10**6))
def test_the_command_line_gives_the_settings_back(seed: int) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    base = TrainConfig(model="rotate", model_options={"norm": 2.0}, loss="pairwise", loss_options={"margin": 1.5})
    configs = {
        "prepare": PrepareConfig(dataset="a folder/of mine", size=300),
        "train": Space(base, SEARCHABLE, 100).suggest(study.ask()),
        "corrupt": CorruptConfig(calibration_strategy={"typed": 0.25, "uniform": 0.75}, calibration_filtered=False),
        "calibrate": CalibrateConfig(base_rate=0.07, calibrators=("isotonic",)),
    }
    read: list[dict[str, Any]] = []
    reader = typer.Typer()
    reader.command()(command(read.append, {name: type(config) for name, config in configs.items()}, []))
    words = shlex.split(run_command(configs.values()))
    assert words[:4] == ["kgcal", "run", "--preset", "none"]  # which would choose what is left open
    done = CliRunner().invoke(reader, words[4:])
    assert done.exit_code == 0, done.output
    assert read == [configs]


def test_commands_load_no_optuna() -> None:
    script = "import sys, flows.cli.commands; print('optuna' in sys.modules, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert done.stdout.split() == ["False", "False"]
