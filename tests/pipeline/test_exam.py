"""The exam on a real store: who makes it, what field labels do to it, and how a champion adapts to drift."""

from inspect import signature
from pathlib import Path

import pytest

from flows.jobs.promote import promote
from flows.jobs.recalibrate import recalibrate
from kgcore.config import GateConfig, WatchConfig
from kgcore.data.datasets.labels import for_exam, read_labels
from kgcore.wings.monitoring.exam import TEST, Exam
from tasks.jobs.exam import EXAM
from tasks.jobs.manifest import resolve
from tasks.jobs.promote import Decision
from tasks.tracking.artifacts import GRAPH
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tests.pipeline.champions import Champion, make_champion

pytestmark = pytest.mark.long

RECALIBRATE = WatchConfig(on_drift="recalibrate", alpha=0.02)


@pytest.fixture
def champion(home: Path) -> Champion:
    return make_champion(home)


def decided(**settings: float) -> Decision:
    [decision] = promote.fn(dataset="family", config=GateConfig(**settings))
    return decision


def exams() -> list[Exam]:
    """Return all versions of the exam, the first version first."""
    store = open_store()
    runs = store.find_all(RunTags(stage="exam", dataset="family"))
    return [store.load(run.run_id, EXAM) for run in sorted(runs, key=lambda run: int(run.tags.exam or 0))]


def test_without_drift_nothing_changes(champion: Champion) -> None:
    champion.label(400)
    seen = champion.check(RECALIBRATE)
    assert (seen.answer, seen.recalibrated) == ("", "")
    decision = decided()
    assert "field labels, with its own base rate" in decision.explanation
    assert not decision.passed
    assert decision.champion == "models:/kgcal-family/1"
    assert [exam.version for exam in exams()] == [1, 2]


@pytest.mark.parametrize(("answer", "shift", "slope"), [("shift", 2.0, 1.0), ("refit", 0.0, -1.0)])
def test_after_drift_the_right_challenger_becomes_champion(
    champion: Champion, answer: str, shift: float, slope: float
) -> None:
    champion.label(400, shift=shift, slope=slope)
    seen = champion.check(RECALIBRATE)
    assert seen.answer == answer
    assert [exam.version for exam in exams()] == [1, 2]  # to recalibrate with the same labels makes no new version
    decision = decided()
    assert decision.passed, decision.explanation
    assert "field labels, with its own base rate" in decision.explanation
    assert decision.champion == decision.challenger != "models:/kgcal-family/1"
    again = decided()  # a new era has begun: the old test split must not bring the old champion back
    assert not again.passed
    assert again.champion == decision.champion
    assert exams()[-1].era == 2
    before, after = champion.check().metrics, seen.metrics  # the new champion on the same labels
    assert before["brier"] < after["brier"]
    if answer == "refit":  # the labels that do not belong to the exam were added to the validation split
        labelled = read_labels(champion.labels)
        mine, rest = labelled[for_exam(labelled, 0.5)], labelled[~for_exam(labelled, 0.5)]
        graph = open_store().load(resolve("prepare", seen.recalibrated).run_id, GRAPH)
        valid = graph.index(graph.valid.triples)
        assert not valid.contains(graph.number(mine)[0]).any()
        assert valid.contains(graph.number(rest)[0]).all()


def test_field_labels_are_divided_between_the_exam_and_calibration(champion: Champion) -> None:
    champion.label(60)
    champion.check()
    labelled = read_labels(champion.labels)
    mine = labelled[for_exam(labelled, 0.5)]
    exam = exams()[-1]
    field = exam.questions[exam.questions["era"] != TEST]
    assert set(zip(field["subject"], field["predicate"], field["object"], field["label"], strict=True)) == set(
        zip(mine["subject"], mine["predicate"], mine["object"], mine["label"], strict=True)
    )
    assert signature(recalibrate.fn).parameters["exam_share"].default == 0.5
    whole = recalibrate.fn(model=champion.results.pipeline, labels=str(champion.labels), exam_share=0.0)
    assert len(exams()) == 2  # the same labels make no new version
    graph = open_store().load(whole.runs["prepare"], GRAPH)
    assert graph.index(graph.valid.triples).contains(graph.number(labelled)[0]).all()
