"""The stage match: its key, its artifacts, and what it says about candidates."""

from pathlib import Path

import numpy as np
import pytest

from kgcore.config import CalibrateConfig, CorruptConfig, MatchConfig, PrepareConfig, TrainConfig
from kgcore.data.datasets.labels import for_exam
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError
from kgcore.mixture.judged import read_judged
from kgcore.wings.monitoring.exam import first_exam
from tasks.jobs.exam import StoredAnswers, add_field_labels, exam_of
from tasks.jobs.find_model import Ask, locate
from tasks.stages.calibrate import CALIBRATE, settle
from tasks.stages.corrupt import CORRUPT
from tasks.stages.match import MATCH, check_candidates, check_file
from tasks.stages.prepare import PREPARE
from tasks.stages.running import StageRef
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN
from tasks.tracking.artifacts import GRAPH, LABELLED, MATCHED, MIXTURE
from tasks.tracking.record import RunTags
from tasks.tracking.registry import load_calibrated
from tasks.tracking.store import open_store

QUICK = {"match_eta": 5, "match_replicates": 20}
UNDETERMINED = MatchConfig(candidates="test", match_width=0.001, **QUICK)  # no base rate has so narrow an interval


@pytest.fixture(scope="module")
def trained(module_home: Path) -> tuple[StageRef, StageRef]:
    """Return the prepare run and the train run of a small graph."""
    data = PREPARE(config=PrepareConfig(size=200))
    return data, TRAIN(data, config=TrainConfig(k=16, epochs=20, batch_size=128))


def write(path: Path, graph: KnowledgeGraph, labels: int = 0) -> Path:
    """Write the test triples as candidates, the first `labels` of a random order with their labels."""
    order = np.random.default_rng(0).permutation(len(graph.test.triples))
    names = graph.names_of(graph.test.triples[order]).to_numpy().tolist()
    known = ["1" if label else "-1" for label in graph.test.labels[order]]
    rows = [[*row, known[number] if number < labels else ""] for number, row in enumerate(names)]
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return path


def test_the_key_has_the_content_of_the_file_and_not_its_path(
    trained: tuple[StageRef, StageRef], tmp_path: Path
) -> None:
    store, graph = open_store(), open_store().load(trained[0].run_id, GRAPH)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    first = MATCH(*trained, config=MatchConfig(candidates=str(write(tmp_path / "one" / "mine.tsv", graph)), **QUICK))
    moved = write(tmp_path / "two" / "mine.tsv", graph)
    assert MATCH(*trained, config=MatchConfig(candidates=str(moved), **QUICK)) == first
    run = store.get(first.run_id)
    assert (run.tags.candidates, (run.tags.config or {})["candidates"]) == ("mine.tsv", "mine.tsv")
    assert set(run.tags.artifacts or {}) == {
        "scores.parquet",
        "triples.parquet",
        "mixture.json",
        "figures/candidates.png",
    }
    write(moved, graph, labels=30)
    other = MATCH(*trained, config=MatchConfig(candidates=str(moved), match_exam_share=0, **QUICK))
    assert other != first
    matched, data = store.load(other.run_id, MATCHED), store.load(other.run_id, MIXTURE)
    assert (matched.fit.labels, len(data.labelled)) == (30, 30)
    assert matched.fit.candidates == len(data.candidates) == len(graph.test.triples) - 30
    assert run.metrics["base_rate"] == store.load(first.run_id, MATCHED).fit.base_rate


def test_labels_of_the_exam_are_not_in_the_fit(trained: tuple[StageRef, StageRef], tmp_path: Path) -> None:
    store, graph = open_store(), open_store().load(trained[0].run_id, GRAPH)
    file = write(tmp_path / "mine.tsv", graph, labels=40)
    found = MATCH(*trained, config=MatchConfig(candidates=str(file), match_base_rate=0.5, **QUICK))
    judged, data = read_judged(file, graph), store.load(found.run_id, MIXTURE)
    exam = for_exam(graph.names_of(judged.triples), 0.5) & judged.labelled
    assert 0 < exam.sum() < 40 == judged.labelled.sum()
    assert data.labelled.labels.tolist() == judged.labels[judged.labelled & ~exam].tolist()
    assert len(data.candidates) == (~judged.labelled | exam).sum()  # they are candidates as before
    assert store.load(found.run_id, LABELLED).tolist() == judged.triples[judged.labelled & ~exam].tolist()
    [note] = [text for text in store.load(found.run_id, MATCHED).sentences() if "belong to the exam" in text]
    assert note == (
        f"{exam.sum()} of the 40 labels belong to the exam of `kgcal promote`: these triples count as candidates "
        "without a label."
    )


def test_a_model_does_not_sit_the_exam_on_labels_that_it_was_fitted_to(
    trained: tuple[StageRef, StageRef], tmp_path: Path
) -> None:
    store, graph = open_store(), open_store().load(trained[0].run_id, GRAPH)
    file = write(tmp_path / "mine.tsv", graph, labels=40)
    matched = MATCH(*trained, config=MatchConfig(candidates=str(file), match_base_rate=0.5, **QUICK))
    scores = SCORE(trained[1], CORRUPT(*trained, config=CorruptConfig(calibration_eta="2")))
    made = CALIBRATE(scores, matched, config=CalibrateConfig(calibrators=("platt",), base_rate=0.5))
    paper = first_exam(graph, "family").paper(100)  # its questions are the test triples
    seen = graph.index(store.load(matched.run_id, LABELLED)).contains(graph.number(paper.names)[0])
    held = graph.index(graph.train.triples, graph.valid.triples).contains(graph.number(paper.names)[0])
    assert (seen & ~held).sum() > 10
    for model_id in store.get(made.run_id).model_ids:
        _, own = StoredAnswers(paper).of(load_calibrated(store, model_id))
        np.testing.assert_array_equal(own, ~(seen | held))


def test_labels_that_go_to_the_exam_and_to_the_fit_do_not_meet(
    trained: tuple[StageRef, StageRef], tmp_path: Path
) -> None:
    """The same labels for `watch --labels` and, with other candidates, for `--candidates`."""
    store, graph = open_store(), open_store().load(trained[0].run_id, GRAPH)
    rng, file = np.random.default_rng(3), tmp_path / "field.tsv"
    triples = rng.integers(0, [len(graph.entities), len(graph.predicates), len(graph.entities)], (120, 3))
    split = graph.index(graph.train.triples, graph.valid.triples, graph.test.triples)
    rows = graph.names_of(np.unique(triples[~split.contains(triples)], axis=0)).to_numpy().tolist()
    labels = ["\t".join([*row, str(rng.choice([-1, 1]))]) + "\n" for row in rows]
    file.write_text("".join(labels))
    add_field_labels(trained[0].run_id, file, 0.5)
    with write(tmp_path / "asked.tsv", graph).open("a") as asked:
        asked.writelines(labels)
    matched = MATCH(*trained, config=MatchConfig(candidates=asked.name, match_base_rate=0.5, **QUICK))
    scores = SCORE(trained[1], CORRUPT(*trained, config=CorruptConfig(calibration_eta="2")))
    made = CALIBRATE(scores, matched, config=CalibrateConfig(calibrators=("platt",), base_rate=0.5))
    paper = exam_of(store, "family", trained[0].run_id).paper(20)
    assert min(paper.labels.sum(), (1 - paper.labels).sum()) > 10
    fitted = store.load(matched.run_id, LABELLED)
    assert len(fitted) + len(paper) == len(rows)
    assert not graph.index(fitted).contains(graph.number(paper.names)[0]).any()
    for model_id in store.get(made.run_id).model_ids:  # so every question remains
        assert StoredAnswers(paper).of(load_calibrated(store, model_id))[1].all()


def test_a_stated_base_rate_adds_the_hard_strategies(trained: tuple[StageRef, StageRef]) -> None:
    found = MATCH(*trained, config=MatchConfig(candidates="test", match_base_rate=0.5, **QUICK))
    matched, data = (open_store().load(found.run_id, artifact) for artifact in (MATCHED, MIXTURE))
    assert list(matched.fit.shares) == ["relational", "typed", "uniform", "near_miss", "nearest"]
    assert (matched.source, matched.fit.stated, matched.fit.base_rate) == ("test", True, 0.5)
    assert len(data.labelled) == 0  # the labels are hidden
    free = MATCH(*trained, config=UNDETERMINED)
    assert list(open_store().load(free.run_id, MATCHED).fit.shares) == ["relational", "typed", "uniform"]


def test_a_run_that_does_not_determine_the_base_rate_is_kept(trained: tuple[StageRef, StageRef]) -> None:
    found = MATCH(*trained, config=UNDETERMINED)
    with pytest.raises(InputError, match="these candidates do not determine the base rate"):
        settle(CalibrateConfig(), [found])
    assert open_store().get(found.run_id).status == "FINISHED"
    assert settle(CalibrateConfig(), []) == CalibrateConfig()


def test_a_mistake_is_found_before_training(trained: tuple[StageRef, StageRef], tmp_path: Path) -> None:
    few = tmp_path / "few.tsv"
    few.write_text("a\tb\tc\n")
    with pytest.raises(InputError, match=r"few.tsv has 0 usable candidates: it must have at least 20; left out: 1"):
        check_candidates(trained[0], MatchConfig(candidates=str(few)))
    with pytest.raises(InputError, match=r"missing\.tsv cannot be read"):
        check_file(MatchConfig(candidates="missing.tsv"))
    with pytest.raises(InputError, match="candidates is empty: name a file"):
        check_file(MatchConfig())
    with pytest.raises(InputError, match="is of an unknown kind"):
        check_file(MatchConfig(candidates="train"))


@pytest.mark.parametrize(
    ("labels", "chosen"),
    [
        (["base_rate", "synthetic.platt", "candidates.platt", "ground_truth.platt"], "ground_truth.platt"),
        (["base_rate", "candidates.platt", "candidates.beta", "synthetic.platt"], "candidates.platt"),
        (["base_rate", "synthetic.platt"], "synthetic.platt"),
    ],
)
def test_calibrators_of_labels_answer_then_those_of_candidates(home: Path, labels: list[str], chosen: str) -> None:
    store = open_store()
    with store.open_run("calibrate", RunTags(stage="calibrate")) as run_id:
        ids = {
            label: store.log_model(run_id, number, label, {"dataset": "zoo"}, {"label": label}, lambda folder: None)
            for number, label in enumerate(labels)
        }
    assert locate(Ask(run_id)).model_id == ids[chosen]
