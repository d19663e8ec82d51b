"""After a stage ran again: the later stages that are stale, and the command that brings them up to date."""

import re

import pytest

from tests.conftest import TINY_TRAINING
from tests.pipeline.command import Kgcal, runs_of, tags_of, tags_of_run
from tests.pipeline.finished import finished


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    """Run a pipeline. Return its `kgcal` and its results."""
    return finished(tmp_path_factory.mktemp("first"), "--calibrators", "platt", "--tau", "0.6")


def stale_after(kgcal: Kgcal, *arguments: str) -> tuple[str, str]:
    """Run a stage. Return the id of its run, and what it says of later stages, in one line."""
    done = kgcal(*arguments)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    return done.stdout.strip(), said[said.find("classify, ") :] if "still based" in said else ""


@pytest.mark.long
def test_the_sentence_names_the_stale_stages_and_its_command_brings_them_up_to_date(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    again = ("calibrate", "--calibrators", "platt", "--base-rate", "0.2")
    run, said = stale_after(kgcal, *again)
    assert said.startswith("classify, evaluate and report are still based on an earlier run of calibrate: ")
    [command] = re.findall(r"`kgcal (.*?)`", said)
    assert command == f"refresh {run}"
    done = kgcal(*command.split())
    assert done.returncode == 0, done.stderr
    assert "stages run: classify, evaluate, report; re-used: prepare, train, corrupt, score, calibrate, rank" in (
        done.stdout
    )
    assert stale_after(kgcal, *again) == (run, "")
    pipeline = runs_of(kgcal, "pipeline")[-1]
    assert pipeline.info.run_name == "refresh family after calibrate"
    assert (pipeline.data.params["base_rate"], pipeline.data.params["tau"]) == ("0.2", "0.6")
    evaluated = runs_of(kgcal, "evaluate")[-1]
    assert tags_of(evaluated).inputs["calibrate"] == run
    assert tags_of(evaluated).inputs["rank"] == results["runs"]["rank"]
    assert (tags_of(runs_of(kgcal, "classify")[-1]).config or {})["tau"] == 0.6
    # the first run is not stale: later stages have runs that are based on it
    assert stale_after(kgcal, "calibrate", "--calibrators", "platt") == (results["runs"]["calibrate"], "")


def test_what_depends_on_a_model_follows_a_new_training(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    done = kgcal("train", "--data", results["runs"]["prepare"], *TINY_TRAINING, "--seed", "7")
    said, run = " ".join(done.stderr.split()), done.stdout.strip()
    assert "score, calibrate, classify, rank, evaluate and report are still based on an earlier run of train" in said
    assert kgcal("refresh", f"train:{run}").returncode == 0
    report = tags_of(runs_of(kgcal, "report")[-1])
    assert (report.inputs["train"], report.inputs["corrupt"]) == (run, results["runs"]["corrupt"])
    assert (tags_of_run(kgcal, report.inputs["calibrate"]).config or {})["calibrators"] == ["platt"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("latest", "is a pipeline run: name the run of a stage, such as calibrate"),
        ("nosuch", "the run 'nosuch' does not exist in "),
    ],
)
def test_a_run_of_no_stage_is_refused(first: tuple[Kgcal, dict], run: str, message: str) -> None:
    done = first[0]("refresh", run)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_stage_without_later_runs_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    kgcal = Kgcal(tmp_path_factory.mktemp("alone"))
    run = kgcal("prepare", "--size", "300").stdout.strip()
    assert f"no later stage is based on run {run} or an earlier run of its stage: `kgcal run` runs them" in (
        kgcal("refresh", run).stderr
    )
