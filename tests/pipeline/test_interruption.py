"""Interrupted commands: the next one resumes a killed training, and ends with the same bits and the same answers.

KILLS is how many random commands are killed at random moments, three times each in one home. SEED chooses them.
"""

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.pipeline.all_commands import COMMANDS, SEED, check_tidy, outcome, prepared, undisturbed
from tests.pipeline.command import Kgcal, all_runs, tags_of

pytestmark = pytest.mark.kills

KILLS, IN_A_HOME = int(os.environ.get("KILLS", "6")), 3
OPTIONS = ("--size", "600", "--k", "16", "--epochs", "60", "--batch-size", "64")


NUMBERS = ("*.safetensors", "*.parquet", "calibrator.json", "measured.json", "ranks.json", "audit.json")


def numbers(kgcal: Kgcal) -> list[tuple[str, bytes]]:
    """Return the name and the bytes of every file of numbers: the others contain run ids and times."""
    return sorted(
        (path.name, path.read_bytes()) for name in NUMBERS for path in kgcal.home.rglob(f"artifacts/**/{name}")
    )


def test_a_killed_run_resumes_and_gives_the_same_bits_as_one_with_two_threads(tmp_path: Path) -> None:
    killed = Kgcal(tmp_path / "killed", KGCAL_CHECKPOINT_SECONDS="0")
    undisturbed = Kgcal(tmp_path / "undisturbed", OMP_NUM_THREADS="2")
    killed.home.parent.mkdir()
    with subprocess.Popen(
        killed.command("run", *OPTIONS), env=killed.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + 120
        while not list(killed.home.glob("checkpoints/*/train.safetensors")):
            assert process.poll() is None, "the run ended before it wrote a checkpoint"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL

    done = killed("run", *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert "resumed from the checkpoint of epoch" in done.stderr
    # a process of its own: a process that is forked has the threads that its parent has set
    subprocess.run(undisturbed.command("run", *OPTIONS), env=undisturbed.environment, check=True, capture_output=True)
    expected = numbers(undisturbed)
    assert {name for name, _ in expected} >= {
        "embeddings.safetensors",
        "scores.parquet",
        "calibrator.json",
        "measured.json",
    }
    assert numbers(killed) == expected
    assert not list(killed.home.glob("checkpoints/*"))

    status = [run.info.status for run in all_runs(killed)]
    assert status.count("KILLED") == 2  # the pipeline and its train stage
    assert "RUNNING" not in status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_leaves_no_mlflow_run_running(tmp_path: Path, number: signal.Signals) -> None:
    kgcal = Kgcal(tmp_path, KGCAL_CHECKPOINT_SECONDS="0")
    with subprocess.Popen(
        kgcal.command("run", *OPTIONS),
        env=kgcal.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not list(kgcal.home.glob("checkpoints/*/train.safetensors")):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        errors = process.communicate()[1]
    assert process.returncode == 128 + number
    assert "Traceback" not in errors
    assert sorted({run.info.status for run in all_runs(kgcal)}) == ["FINISHED", "KILLED"]


def test_two_simultaneous_runs_train_once(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    kgcal.home.parent.mkdir(exist_ok=True)
    both = [
        subprocess.Popen(
            kgcal.command("run", *OPTIONS), env=kgcal.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    for process in both:
        assert process.communicate()[1] is not None
        assert process.returncode == 0
    runs = all_runs(kgcal)
    stages = [tags_of(run).stage for run in runs]
    assert {stage: stages.count(stage) for stage in ("pipeline", "train", "report")} == {
        "pipeline": 2,
        "train": 1,
        "report": 1,
    }
    assert {run.info.status for run in runs} == {"FINISHED"}


@pytest.mark.parametrize("number", range(-(-KILLS // IN_A_HOME)))
def test_a_command_that_was_killed_at_random_moments_gives_the_same_answer(number: int, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {number}")
    name = rng.choice(list(COMMANDS))
    expected, kgcal = undisturbed(name), prepared(name, tmp_path / "one")
    for _ in range(IN_A_HOME):
        kind = rng.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        moment = rng.uniform(0.05, expected.seconds)
        done = kgcal.forks.run([*COMMANDS[name]], kgcal.environment, kgcal.home.parent, moment, kind)
        print(f"{name}: {kind.name} after {moment:.2f} of {expected.seconds:.2f} s: status {done.returncode}")
        assert done.returncode in (0, -kind if kind == signal.SIGKILL else 128 + kind), done.stderr
        assert "Traceback" not in done.stderr
    assert outcome(name, kgcal).left == expected.left
    check_tidy(kgcal)
