"""Every typed handle of an artifact: a later stage loads from the store what a stage has saved."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from flows.jobs.calibrate_scores import calibrate_scores
from flows.jobs.discover import discover
from flows.jobs.ensemble import ensemble
from flows.jobs.predict import predict
from flows.jobs.promote import promote
from flows.jobs.tune import tune
from flows.pipeline import pipeline
from kgcore.config import (
    CalibrateConfig,
    CorruptConfig,
    DiscoverConfig,
    EvaluateConfig,
    EvidenceConfig,
    MatchConfig,
    PrepareConfig,
    ScoresConfig,
    TrainConfig,
    TuneConfig,
)
from kgcore.wings.external.calibrator import ScoreCalibrator
from tasks.jobs import calibrate_scores as scores_job
from tasks.jobs import exam as exam_job
from tasks.jobs import pipeline as pipeline_job
from tasks.jobs import request as request_job
from tasks.jobs import tune as tune_job
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.corrupt import CORRUPT
from tasks.stages.prepare import PREPARE
from tasks.stages.running import StageRef, StageRun
from tasks.stages.score import SCORE
from tasks.stages.table import STAGES
from tasks.stages.train import TRAIN
from tasks.tracking import artifacts
from tasks.tracking.artifacts import Artifact, ModelFiles, save
from tasks.tracking.record import CALIBRATE_SCORES, RunTags
from tasks.tracking.store import Store, open_store
from tests.core.scored_rows import table_of_scores, written
from tests.few_trees import few_trees
from tests.stages.equality import assert_same

pytestmark = pytest.mark.long

HANDLES = {
    name: handle
    for name, handle in (vars(artifacts) | {"EXAM": exam_job.EXAM}).items()
    if isinstance(handle, Artifact | ModelFiles)
}
# the graph of these tests has neither unseen entities nor drawn splits: tests/core/test_all_rows.py,
# test_unseen_answers.py and tests/pipeline/test_twins.py have these
ELSEWHERE = {name: HANDLES[name] for name in ("UNSEEN", "UNSEEN_ANSWERS", "UNSEEN_TEST", "TWINS", "TWIN_EVIDENCE")}
EVERY = {name: handle for name, handle in HANDLES.items() if isinstance(handle, Artifact) and handle.write}
WRITTEN = {name: handle for name, handle in EVERY.items() if name not in ELSEWHERE}
MODELS = {name: handle for name, handle in HANDLES.items() if isinstance(handle, ModelFiles)}
PARTS = {"ENTITIES", "GRAPH_WITHOUT_TEST", "PREDICATES"}  # they are written with the graph


class Saved:
    """The objects that stages and jobs have saved, newest last, and the runs that contain them.

    values  handle -> the object that was saved last
    models  handle -> LoggedModel -> the object that was logged
    runs    stage -> run id
    """

    def __init__(self) -> None:
        self.values: dict[Artifact[Any], Any] = {}
        self.models: dict[ModelFiles[Any], dict[str, Any]] = {}
        self.runs: dict[str, str] = {}

    def save(self, folder: Path, artifact: Artifact[Any], value: Any) -> None:
        self.values[artifact] = value
        save(folder, artifact, value)


def record(patch: pytest.MonkeyPatch, saved: Saved) -> None:
    """Record every object that is saved from now on."""
    log_model = StageRun.log_model

    def logged(run: StageRun, files: ModelFiles[Any], value: Any, *arguments: Any, **tags: Any) -> str:
        model_id = log_model(run, files, value, *arguments, **tags)
        saved.models.setdefault(files, {})[model_id] = value
        return model_id

    log_scores = scores_job.log_score_calibrator

    def logged_scores(store: Store, run_id: str, number: int, value: ScoreCalibrator, example: pd.DataFrame) -> str:
        model_id = log_scores(store, run_id, number, value, example)
        saved.models.setdefault(artifacts.SCORE_CALIBRATOR, {})[model_id] = value
        return model_id

    patch.setattr(scores_job, "log_score_calibrator", logged_scores)
    for module in (pipeline_job, tune_job, exam_job, scores_job, request_job):
        patch.setattr(module, "save", saved.save)
    patch.setattr(StageRun, "save", lambda run, artifact, value: saved.save(run.folder, artifact, value))
    patch.setattr(StageRun, "log_model", logged)


def candidates(home: Path) -> str:
    """Write the test triples to a file of candidates. Every fourth keeps its label."""
    rows = (home / "datasets/family-200-0/test.txt").read_text().splitlines()
    lines = [row if number % 4 == 0 else row.rsplit("\t", 1)[0] + "\t" for number, row in enumerate(rows)]
    (home / "candidates.tsv").write_text("\n".join(lines) + "\n")
    return str(home / "candidates.tsv")


def shares(home: Path) -> str:
    """Write a file that says how complete the graph is, for each predicate."""
    rows = (home / "datasets/family-200-0/train.txt").read_text().splitlines()
    lines = [f"{predicate}\t.9\n" for predicate in sorted({row.split("\t")[1] for row in rows})]
    (home / "shares.tsv").write_text("".join(lines))
    return str(home / "shares.tsv")


def pairs(home: Path) -> str:
    """Write a file of pairs that the graph hardly knows."""
    people = [f"person_{number}" for number in range(1, 12)]
    (home / "pairs.tsv").write_text("".join(f"{s}\tcousin_of\t{o}\n" for s in people for o in people if s != o))
    return str(home / "pairs.tsv")


def second_model(home: Path) -> StageRef:
    """Return the calibrate run of a second model, for the ensemble."""
    data = PREPARE(config=PrepareConfig(size=200))
    model = TRAIN(data, config=TrainConfig(k=8, epochs=4, batch_size=128))
    scores = SCORE(model, CORRUPT(data, model, config=CorruptConfig(calibration_eta="10")))
    return CALIBRATE(scores, config=CalibrateConfig(base_rate=0.5, calibrators=("platt",), completeness=shares(home)))


@pytest.fixture(scope="module")
def saved(module_home: Path) -> Saved:
    """Run a pipeline, an ensemble, a search, an exam and a calibration of scores: they save every kind of artifact."""
    found = Saved()
    prepare, tiny = PrepareConfig(size=200), {"k": 8, "epochs": 4, "batch_size": 128}
    with pytest.MonkeyPatch.context() as patch:
        record(patch, found)
        few_trees(patch)
        other = second_model(module_home)
        patch.setattr("kgcore.config.calibrate.FEWEST", 100)
        made = pipeline.fn(
            prepare=prepare,
            train=TrainConfig(model="distmult", **tiny),
            corrupt=CorruptConfig(calibration_eta="10"),
            calibrate=CalibrateConfig(
                base_rate=0.5,
                calibrators=("per_relation", "boosted_trees"),
                combine_folds=2,
                completeness=shares(module_home),
            ),
            evaluate=EvaluateConfig(bootstrap_replicates=50),
            match=MatchConfig(candidates=candidates(module_home), match_eta=2, match_replicates=20),
            evidence=EvidenceConfig(evidence=("score", "degrees")),
            preset="auto",
        )
        pooled = ensemble.fn(runs=[other.run_id, made.pipeline])
        searched = tune.fn(
            prepare=prepare,
            train=TrainConfig(**tiny),
            config=TuneConfig(trials=1, most_epochs=4, search=("learning_rate",)),
        )
        promote.fn(dataset="family")
        table = written(module_home, "scores.csv", table_of_scores(np.random.default_rng(0)))
        scores = calibrate_scores.fn(
            str(table), config=ScoresConfig(score="f", label="y", calibrators=("beta",), folds=2)
        )
        discover(config=DiscoverConfig(top=5, completeness="0.9"))
        predict(candidates=[pairs(module_home)], calibrator="synthetic.per_relation", model=made.runs["calibrate"])
    [exam] = open_store().find(RunTags(stage="exam"))
    [discovered] = open_store().find(RunTags(stage="discover"))
    [survey] = open_store().find(RunTags(stage="survey"))
    [comparison] = open_store().find(RunTags(stage="comparison"))
    found.runs = made.runs | {"pipeline": made.pipeline, "ensemble": pooled.run, "tune": searched.run}
    found.runs |= {
        "exam": exam.run_id,
        "discover": discovered.run_id,
        "survey": survey.run_id,
        "comparison": comparison.run_id,
        CALIBRATE_SCORES: scores.run,
    }
    return found


def test_each_stage_has_handles_and_no_two_name_the_same_file() -> None:
    assert {handle.stage for handle in HANDLES.values()} == {stage.name for stage in STAGES} | {
        CALIBRATE_SCORES,
        "comparison",
        "discover",
        "ensemble",
        "exam",
        "pipeline",
        "survey",
        "tune",
    }
    places = [(handle.stage, handle.path) for handle in (WRITTEN | ELSEWHERE).values()]
    assert len(set(places)) == len(places)
    assert HANDLES.keys() - WRITTEN.keys() - MODELS.keys() - ELSEWHERE.keys() == PARTS


def test_the_graph_has_hidden_facts_among_its_corruptions(saved: Saved) -> None:
    """So the scores have all columns that a score table can have."""
    assert saved.values[artifacts.SCORES].hidden_log_odds is not None


def test_every_handle_is_saved_by_its_stage(saved: Saved) -> None:
    assert set(saved.values) == set(WRITTEN.values())
    assert set(saved.models) == set(MODELS.values())


@pytest.mark.parametrize("name", WRITTEN)
def test_an_artifact_is_loaded_as_it_was_saved(saved: Saved, name: str) -> None:
    artifact = WRITTEN[name]
    assert_same(open_store().load(saved.runs[artifact.stage], artifact), saved.values[artifact])


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_loaded_as_it_was_logged(saved: Saved, name: str) -> None:
    store, files = open_store(), MODELS[name]
    made = store.get(saved.runs[files.stage]).model_ids
    assert made
    for model_id in made:
        assert_same(store.load_model(model_id, files), saved.models[files][model_id])


def test_parts_of_the_graph_are_loaded_alone(saved: Saved) -> None:
    store, graph = open_store(), saved.values[artifacts.GRAPH]
    prepared = saved.runs["prepare"]
    assert store.load(prepared, artifacts.PREDICATES) == graph.predicates
    assert store.load(prepared, artifacts.ENTITIES) == graph.entities
    without = store.load(prepared, artifacts.GRAPH_WITHOUT_TEST)
    assert len(without.test) == 0
    assert_same((without.train, without.valid, without.entities), (graph.train, graph.valid, graph.entities))


def test_a_part_cannot_be_saved_by_itself(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"graph/predicates\.parquet of prepare is a part of another artifact"):
        save(tmp_path, artifacts.PREDICATES, ["likes"])


def test_a_difference_between_objects_is_found() -> None:
    """The comparison that the other tests use can fail."""
    for one, other in (
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        ({"a": np.zeros(2)}, {"a": np.array([0.0, 1e-300])}),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1.0]})),
        (TrainConfig(k=8), TrainConfig(k=9)),
        ([1, 2], [1]),
    ):
        with pytest.raises(AssertionError):
            assert_same(one, other)
