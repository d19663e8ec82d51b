"""Which stages `kgcal run` re-uses: in a second run, with another setting, a lost artifact or changed code."""

import re
from pathlib import Path

import pytest

from tests.conftest import TINY_TRAINING, tiny_options
from tests.pipeline.command import STAGE_NAMES, Kgcal, client_of, copy_of_the_code
from tests.pipeline.finished import finished


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Kgcal, dict]:
    """Run a pipeline. Return its `kgcal` and its results."""
    return finished(tmp_path_factory.mktemp("first"))


def test_a_second_run_re_uses_every_stage_and_says_so(first: tuple[Kgcal, dict]) -> None:
    kgcal, results = first
    done = kgcal("run", *tiny_options())
    assert done.returncode == 0
    assert "stages run: none" in done.stdout
    assert done.stderr.count("re-used") == len(STAGE_NAMES)
    again = kgcal.results(*tiny_options())
    assert again["runs"] == results["runs"]
    assert again["reused"] == STAGE_NAMES
    assert again["metrics"] == results["metrics"]


def test_a_calibrator_that_needs_more_labels_is_left_out_with_the_reason(tmp_path: Path) -> None:
    done = Kgcal(tmp_path)("run", *tiny_options(), "--calibrators", "platt,boosted_trees")
    assert done.returncode == 0
    words = " ".join(done.stderr.split())
    assert "boosted_trees: left out. It needs 1,000 true validation triples: there are" in words


def test_another_setting_re_runs_its_stage_and_the_stages_after_it(first: tuple[Kgcal, dict]) -> None:
    kgcal, _ = first
    results = kgcal.results(*tiny_options(), "--base-rate", "0.3")
    assert results["reused"] == ["prepare", "train", "corrupt", "score", "rank"]


@pytest.mark.long
def test_the_newest_run_answers_although_its_calibrators_are_older(first: tuple[Kgcal, dict]) -> None:
    """The run with another base rate has newer calibrators. Recalibrating the data set takes the newest run, too."""
    kgcal, results = first

    def answering() -> str:
        """Return the calibrate run whose calibrator answers."""
        done = kgcal("predict", "person_0", "sibling_of", "person_1", "--dataset", "family")
        [model] = re.findall(r"models:/(m-[0-9a-f]+)", done.stdout)
        return str(client_of(kgcal).get_logged_model(model).source_run_id)

    other = kgcal.results(*tiny_options(), "--base-rate", "0.3")
    assert answering() == other["runs"]["calibrate"] != results["runs"]["calibrate"]
    again = kgcal.results(*tiny_options())
    assert again["runs"] == results["runs"]
    assert answering() == results["runs"]["calibrate"]
    moved = kgcal("recalibrate", "--dataset", "family", "--base-rate", "0.2")
    assert moved.returncode == 0, moved.stderr
    assert f"the calibrate run of {again['pipeline']} is {again['runs']['calibrate']}" in moved.stderr
    refused = kgcal("recalibrate", "--dataset", "mine", "--base-rate", "0.2")
    assert (refused.returncode, refused.stderr) == (
        2,
        "kgcal: mine has no finished pipeline: run `kgcal run --dataset mine` first\n",
    )


@pytest.mark.long
def test_a_lost_artifact_is_made_again(tmp_path: Path) -> None:
    kgcal, results = finished(tmp_path)
    for file, reused in (
        ("scores.parquet", ["prepare", "train", "corrupt", "rank"]),
        ("predictions.parquet", ["prepare", "train", "corrupt", "score", "calibrate", "rank"]),
        ("embeddings.safetensors", ["prepare", "corrupt"]),
    ):
        newest = max((kgcal.home / "artifacts").rglob(file), key=lambda path: path.stat().st_mtime)
        newest.unlink()
        again = kgcal.results(*tiny_options())
        assert again["reused"] == reused, file
        assert again["metrics"] == results["metrics"]
    forced = kgcal.results(*tiny_options(), "--force")
    assert forced["reused"] == []
    assert forced["metrics"] == results["metrics"]


@pytest.mark.long
def test_a_stage_that_was_forced_is_the_upstream_of_the_next_run(tmp_path: Path) -> None:
    kgcal, first = finished(tmp_path)
    forced = kgcal("train", "--data", first["runs"]["prepare"], *TINY_TRAINING, "--force")
    assert forced.returncode == 0, forced.stderr
    again = kgcal.results(*tiny_options())
    assert again["runs"]["train"] == forced.stdout.strip() != first["runs"]["train"]
    assert again["reused"] == ["prepare", "corrupt"] or again["reused"] == ["prepare", "train", "corrupt"]
    html = Path(again["report"]).read_text()
    assert again["runs"]["train"] in html
    assert first["runs"]["train"] not in html


@pytest.mark.long
def test_a_changed_generator_generates_anew(tmp_path: Path) -> None:
    code = copy_of_the_code(tmp_path)
    kgcal = Kgcal(tmp_path, code)
    before = kgcal("prepare", "--size", "300").stdout
    source = code / "kgcore" / "data" / "datasets" / "family.py"
    source.write_text(
        source.read_text().replace(
            "PEOPLE_PER_TOWN, PEOPLE_PER_COMPANY = 40, 20", "PEOPLE_PER_TOWN, PEOPLE_PER_COMPANY = 10, 20"
        )
    )
    after = kgcal("prepare", "--size", "300").stdout
    entities = [client_of(kgcal).get_run(run.strip()).data.metrics["entities"] for run in (before, after)]
    assert entities == [322, 345]


@pytest.mark.long
def test_changed_code_re_runs_the_stages_that_call_it_and_the_stages_after_them(tmp_path: Path) -> None:
    code = copy_of_the_code(tmp_path)
    finished(tmp_path)
    kgcal = Kgcal(tmp_path, code)
    with (code / "kgcore/calibrate/fit.py").open("a") as source:
        source.write("\n# touched\n")
    assert kgcal.results(*tiny_options())["reused"] == ["prepare", "train", "corrupt", "score", "rank"]
