"""Checks of a champion on a real store: what a check finds, and the recalibration that follows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from flows.jobs.watch import watch
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.config import WatchConfig
from kgcore.data.datasets.labels import read_labels
from kgcore.errors import InputError
from tasks.tracking.registry import load_calibrated
from tasks.tracking.store import Store
from tests.pipeline.champions import Champion, make_champion
from tests.pipeline.command import tags_of

RECALIBRATE = WatchConfig(on_drift="recalibrate", alpha=0.02)


@pytest.fixture
def champion(home: Path) -> Champion:
    return make_champion(home)


def test_without_a_champion_there_is_nothing_to_watch(home: Path) -> None:
    labels = home / "labels.tsv"
    labels.write_text("a\tb\tc\t1\n")
    with pytest.raises(InputError, match="family has no champion to watch"):
        watch.fn(dataset="family", labels=str(labels))


def test_labels_of_unknown_names_are_too_few(champion: Champion) -> None:
    champion.labels.write_text("a\tb\tc\t1\n")
    with pytest.raises(InputError, match="0 new triples have labels and known names: at least 50 are needed"):
        champion.check()


def exams(champion: Champion) -> int:
    """Return the version of the exam of the data set."""
    experiments = [experiment.experiment_id for experiment in champion.client.search_experiments()]
    runs = champion.client.search_runs(experiments, "tags.`kgcal.stage` = 'exam'")
    return max(int(tags_of(run).exam or 0) for run in runs)


def test_a_check_that_is_refused_leaves_the_exam_as_it_is(champion: Champion) -> None:
    before, facts = exams(champion), champion.home / "datasets/family-300-0"
    champion.label(40)
    held = [line for name in ("train", "valid") for line in (facts / f"{name}.txt").read_text().splitlines()[:3]]
    with champion.labels.open("a") as file:
        file.writelines("\t".join([*line.split("\t")[:3], "1\n"]) for line in held)
        file.write("nobody\tborn_in\tnowhere\t1\n")
    with pytest.raises(InputError) as refused:
        champion.check()
    assert str(refused.value).startswith(f"{champion.labels}: 40 new triples have labels and known names: at least 50")
    left_out = (
        "7 of 47 labelled triples are left out: 1 with a name that is not in train (line 47: unknown entity 'nobody' "
        "and unknown entity 'nowhere'), 3 in train, 3 in valid"
    )
    assert str(refused.value).endswith(left_out)
    assert exams(champion) == before
    seen = champion.check(WatchConfig(at_least=30))
    assert seen.notes[0] == left_out
    assert f"* {left_out}" in seen.result().sentences
    assert exams(champion) == before + 1


def test_a_check_finds_drift_and_the_same_labels_make_no_second_check(champion: Champion) -> None:
    champion.label(200, slope=-1)
    seen = champion.check()
    assert seen.notes == []
    assert (seen.dataset, seen.model, seen.number) == ("family", "models:/kgcal-family/1", 1)
    assert (seen.recalibrated, seen.answer) == ("", "refit")
    assert seen.command == f"kgcal recalibrate models:/kgcal-family/1 --labels {champion.labels}"
    assert seen.findings[0].startswith("the map moved: ")
    assert champion.check() == seen
    note = tags_of(champion.client.get_run(seen.run)).note or ""
    assert note.startswith("check 1 of models:/kgcal-family/1: ")
    assert f"* {seen.findings[0]}" in note


def test_every_further_check_of_a_champion_is_paid_for(champion: Champion) -> None:
    champion.label(100, shift=0.3)
    seen, again = champion.check(), champion.check(RECALIBRATE.replace(on_drift="warn"))
    assert again.number == 2
    assert again.run == seen.run
    series = champion.client.get_metric_history(seen.run, "brier")
    assert [(point.step, point.value) for point in series] == [
        (1, seen.metrics["brier"]),
        (2, again.metrics["brier"]),
    ]
    assert seen.metrics["shift_p"] < 1
    assert again.metrics["shift_p"] == pytest.approx(min(1, 3 * seen.metrics["shift_p"]))  # 2 * 3 instead of 1 * 2
    assert again.metrics["shift"] == seen.metrics["shift"]


def test_an_uncertain_base_rate_and_labels_that_were_used_are_counted(
    champion: Champion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The champion's base rate gets an interval, and ten of the labels are in its fit."""
    champion.label(100, shift=0.3)
    seen = champion.check()

    def changed(store: Store, model_id: str) -> CalibratedModel:
        model = load_calibrated(store, model_id)
        triples, _ = model.graph.number(read_labels(champion.labels))
        return replace(
            model,
            calibrator=replace(model.calibrator, rate=replace(model.calibrator.rate, low=0.2, high=0.6)),
            labelled=triples[:10],
        )

    monkeypatch.setattr("tasks.jobs.watch.load_calibrated", changed)
    again = champion.check(RECALIBRATE.replace(on_drift="warn"))
    assert (seen.metrics["triples"], again.metrics["triples"]) == (100, 90)
    widths = [found.metrics["shift_high"] - found.metrics["shift_low"] for found in (seen, again)]
    assert widths[1] > widths[0] + 0.3


@pytest.mark.long
def test_a_map_that_moved_leads_to_one_refit_of_the_champion(champion: Champion) -> None:
    champion.label(200, slope=-1)
    seen, client = champion.check(RECALIBRATE), champion.client
    manifest = json.loads(Path(client.download_artifacts(seen.recalibrated, "manifest.json")).read_text())
    made = {stage: tags_of(client.get_run(run_id)) for stage, run_id in manifest.items()}
    assert made["train"].adopted == champion.results.runs["train"]
    assert made["prepare"].labels == champion.labels.name
    assert (made["corrupt"].config or {})["calibration_strategy"] == {"uniform": 1.0}  # the settings of the champion
    assert (made["calibrate"].config or {})["base_rate"] == 0.4
    assert tags_of(client.get_run(seen.run)).recalibrated == seen.recalibrated
    assert champion.check(RECALIBRATE).recalibrated == seen.recalibrated


def test_a_base_rate_that_moved_leads_to_a_shift_without_a_fit(champion: Champion) -> None:
    champion.label(200, shift=2)
    warned = champion.check(RECALIBRATE.replace(on_drift="warn"))
    assert (warned.recalibrated, warned.answer) == ("", "shift")
    seen, client = champion.check(RECALIBRATE), champion.client
    assert (seen.number, seen.run) == (warned.number, warned.run)
    manifest = json.loads(Path(client.download_artifacts(seen.recalibrated, "manifest.json")).read_text())
    calibrated = tags_of(client.get_run(manifest["calibrate"]))
    assert calibrated.moved == champion.results.runs["calibrate"]
    assert (calibrated.config or {})["base_rate"] == seen.new_base_rate == pytest.approx(0.83, abs=0.1)
    assert seen.command.endswith(f"--base-rate {seen.new_base_rate:g}")


def test_labels_of_one_class_start_no_recalibration(champion: Champion) -> None:
    champion.label(100, only="1")
    seen = champion.check(RECALIBRATE)
    assert seen.findings[0].startswith("all 100 labels are true; the calibrator expects ")
    assert (seen.answer, seen.command, seen.recalibrated) == ("label", "", "")


def test_labels_that_fit_have_no_answer(champion: Champion) -> None:
    champion.label(300)
    seen = champion.check(RECALIBRATE)
    assert (seen.answer, seen.recalibrated) == ("", "")
    assert min(seen.metrics["shift_p"], seen.metrics["map_p"]) > 0.02
