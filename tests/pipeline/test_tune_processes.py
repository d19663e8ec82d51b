"""Searches and processes: an interrupted and resumed search, and a search that two processes share."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.pipeline.command import Kgcal, all_runs, runs_of
from tests.pipeline.searches import TINY, artifact, started, states

pytestmark = pytest.mark.kills


def wait_for_second_trial(process: "subprocess.Popen[str]", kgcal: Kgcal) -> None:
    """Wait until one trial is complete and another trial runs, in the study and in MLflow."""
    deadline = time.monotonic() + 240
    while not second_trial_runs(kgcal):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


def second_trial_runs(kgcal: Kgcal) -> bool:
    now = states(kgcal)
    if "COMPLETE" not in now or now[-1] != "RUNNING":
        return False
    return len(runs_of(kgcal, "trial")) == len(now) and states(kgcal) == now  # to ask MLflow takes as long as a trial


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_search_is_resumed_and_leaves_nothing_running(tmp_path: Path, number: signal.Signals) -> None:
    kgcal = Kgcal(tmp_path)
    process = started(kgcal, "--trials", "500", "--most-epochs", "60")
    wait_for_second_trial(process, kgcal)
    process.send_signal(number)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert "Traceback" not in errors
    if number == signal.SIGINT:
        check_best_so_far(kgcal, printed)
    if number != signal.SIGKILL:
        assert "RUNNING" not in {run.info.status for run in all_runs(kgcal)}
        assert "RUNNING" not in states(kgcal)
    counted = [state for state in states(kgcal) if state in ("COMPLETE", "PRUNED")]
    done = kgcal(*TINY, "--trials", str(len(counted) + 1), "--most-epochs", "60")
    assert done.returncode == 0, done.stderr
    assert f"{len(counted) + 1} trials: " in done.stdout
    assert "RUNNING" not in {run.info.status for run in all_runs(kgcal)}
    assert [run.info.status for run in runs_of(kgcal, "trial")].count("KILLED") == 1
    assert sorted(states(kgcal)) == sorted([*counted, "COMPLETE", "FAIL"]) or states(kgcal)[-1] == "PRUNED"


def check_best_so_far(kgcal: Kgcal, printed: str) -> None:
    """Check that a search that Ctrl-C ended prints and logs the best trial so far."""
    assert "Interrupted: the same command resumes the search." in printed
    assert "\nkgcal run --preset none --size 300" in printed
    [search] = runs_of(kgcal, "tune")
    assert search.info.status == "FINISHED"
    assert artifact(kgcal, search, "best.json").is_file()


def test_two_processes_share_a_search(tmp_path: Path) -> None:
    kgcal = Kgcal(tmp_path)
    both = [started(kgcal, "--trials", "6") for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors
    assert len(states(kgcal)) == 6
    assert set(states(kgcal)) <= {"COMPLETE", "PRUNED"}
    trials = runs_of(kgcal, "trial")
    assert len(trials) == 6
    settings = [{name: value for name, value in run.data.params.items() if name != "trial"} for run in trials]
    assert len({frozenset(own.items()) for own in settings}) == 6  # no trial was run twice
    assert {run.info.status for run in all_runs(kgcal)} == {"FINISHED"}
