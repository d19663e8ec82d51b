"""The names of the tags of a run in MLflow. No other test knows these names."""

import ast
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import LoggedModelOutput, Metric, Param

from kgcore.errors import InputError
from tasks.tracking.record import DatasetId, RunRecord, RunTags, quoted
from tasks.tracking.store import open_store

CHECKOUT = Path(__file__).resolve().parents[2]

# field -> a value, and the tags that hold it in MLflow
SPELT: dict[str, tuple[Any, dict[str, str]]] = {
    "stage": ("train", {"kgcal.stage": "train"}),
    "key": ("0af1", {"kgcal.key": "0af1"}),
    "config": ({"k": 8, "model": "transe"}, {"kgcal.config": '{"k": 8, "model": "transe"}'}),
    "inputs": (
        {"prepare": "1a", "calibrate.2": "2b"},
        {"kgcal.input.prepare": "1a", "kgcal.input.calibrate.2": "2b"},
    ),
    "artifacts": ({"graph/train.parquet": 12}, {"kgcal.artifacts": '{"graph/train.parquet": 12}'}),
    "owner": ("f00d", {"kgcal.owner": "f00d"}),
    "flow_run": ("flow-1", {"kgcal.flow_run": "flow-1"}),
    "parent": ("3c", {"mlflow.parentRunId": "3c"}),
    "note": ("# A run", {"mlflow.note.content": "# A run"}),
    "dataset": ("wn11", {"kgcal.dataset": "wn11"}),
    "digest": ("d1", {"kgcal.digest": "d1"}),
    "test": ("d2", {"kgcal.test": "d2"}),
    "labels": ("new.tsv", {"kgcal.labels": "new.tsv"}),
    "training": ("d3", {"kgcal.training": "d3"}),
    "adopted": ("4d", {"kgcal.adopted": "4d"}),
    "moved": ("5e", {"kgcal.moved": "5e"}),
    "model": ("6f", {"kgcal.model": "6f"}),
    "base_rate": ("0.5, assumed", {"kgcal.base_rate": "0.5, assumed"}),
    "check": ("d4", {"kgcal.check": "d4"}),
    "recalibrated": ("", {"kgcal.recalibrated": ""}),
    "candidates": ("mine.tsv", {"kgcal.candidates": "mine.tsv"}),
    "exam": ("2", {"kgcal.exam": "2"}),
    "era": ("1", {"kgcal.era": "1"}),
    "paper": ("d5", {"kgcal.paper": "d5"}),
    "judged": (["d6"], {"kgcal.judged": '["d6"]'}),
    "study": ("a.db", {"kgcal.study": "a.db"}),
    "best": ("7a", {"kgcal.best": "7a"}),
    "counts": ({"complete": 3}, {"kgcal.counts": '{"complete": 3}'}),
    "state": ("pruned", {"kgcal.state": "pruned"}),
}
EVERY = RunTags(**{name: value for name, (value, _) in SPELT.items()})
# the sources that spell the names of tags: of runs, of registered versions, and this test
SPELLERS = {"tasks/tracking/record.py", "tasks/tracking/registry.py", "tests/stages/test_record.py"}


def test_every_field_is_pinned_here() -> None:
    assert set(SPELT) == {item.name for item in fields(RunTags)}


@pytest.mark.parametrize("name", SPELT)
def test_a_field_is_written_as_its_tags_and_read_back(name: str) -> None:
    value, spelt = SPELT[name]
    tags = RunTags(**{name: value})
    assert tags.to_mlflow() == spelt
    assert RunTags.from_mlflow(spelt) == tags


def test_all_fields_together_survive_the_round_trip() -> None:
    assert RunTags.from_mlflow(EVERY.to_mlflow()) == EVERY
    assert RunTags().to_mlflow() == {}
    assert RunTags.from_mlflow({}) == RunTags()


def test_tags_of_other_programs_and_versions_are_left_out() -> None:
    others = {"mlflow.user": "ada", "team": "kg", "kgcal.colour": "red", "kgcal": "x", "stage": "train"}
    assert RunTags.from_mlflow(others) == RunTags()
    assert RunTags.from_mlflow(others | {"kgcal.stage": "rank"}) == RunTags(stage="rank")


def test_a_search_filter_has_each_tag_that_is_set_and_the_status() -> None:
    assert RunTags(stage="train", inputs={"prepare": "1a"}).where("FINISHED") == (
        "tags.`kgcal.stage` = 'train' and tags.`kgcal.input.prepare` = '1a' and attributes.status = 'FINISHED'"
    )
    assert RunTags(stage="train").where(None) == "tags.`kgcal.stage` = 'train'"
    assert RunTags().where(None) == ""


def test_a_name_with_one_kind_of_quotes_can_be_searched_for() -> None:
    assert [quoted(text) for text in ("wn11", "o'neil", 'the "big" one')] == [
        "'wn11'",
        '"o\'neil"',
        "'the \"big\" one'",
    ]
    with pytest.raises(InputError, match="a name must not contain both ' and \""):
        quoted("o'neil's \"big\" one")


def test_runs_are_found_by_the_tags_that_mlflow_stores(home: Path) -> None:
    store = open_store()
    client = MlflowClient(tracking_uri=f"sqlite:///{home}/mlflow.db")
    by_field = {}
    for name, (_, spelt) in SPELT.items():
        by_field[name] = client.create_run(store.experiment_id, tags=spelt).info.run_id
    for name, (value, _) in SPELT.items():
        found = store.find(RunTags(**{name: value}), newest=50, status=None)
        assert [run.run_id for run in found] == [by_field[name]], name
    for dataset in ("o'neil", 'the "big" one'):
        run_id = client.create_run(store.experiment_id, tags={"kgcal.dataset": dataset}).info.run_id
        assert [run.run_id for run in store.find(RunTags(dataset=dataset), status=None)] == [run_id]
    assert store.find(RunTags(stage="train")) == []  # that run is not finished


def test_a_record_is_the_run_that_mlflow_holds(home: Path) -> None:
    store = open_store()
    client = MlflowClient(tracking_uri=f"sqlite:///{home}/mlflow.db")
    made = client.create_run(store.experiment_id, start_time=1_500, tags=EVERY.to_mlflow(), run_name="train")
    run_id = made.info.run_id
    assert RunRecord.of(made).ended is None
    client.log_batch(run_id, [Metric("loss", 0.25, 0, 1)], [Param("k", "8")])
    models = [client.create_logged_model(store.experiment_id, source_run_id=run_id).model_id for _ in range(3)]
    order = {models[0]: 2, models[1]: 0, models[2]: 1}
    client.log_outputs(run_id, [LoggedModelOutput(model_id, step) for model_id, step in order.items()])
    client.set_terminated(run_id, "FINISHED", end_time=2_750)
    record = store.get(run_id)
    assert record == RunRecord(
        run_id=run_id,
        name="train",
        status="FINISHED",
        started=1.5,
        ended=2.75,
        tags=EVERY,
        params={"k": "8"},
        metrics={"loss": 0.25},
        model_ids=(models[1], models[2], models[0]),
    )
    assert record.dataset == DatasetId("wn11", "d1")
    assert record.lineage == {"prepare": "1a", "calibrate.2": "2b", "train": run_id}


def test_the_names_of_tags_are_spelt_in_one_place() -> None:
    names = {tag for _, spelt in SPELT.values() for tag in spelt} | {"kgcal.input."}
    found = set()
    for folder in ("kgcore", "tasks", "flows", "kgcal", "tests/core", "tests/stages"):
        for path in sorted((CHECKOUT / folder).rglob("*.py")):
            source = path.read_text()
            if "kgcal." not in source and "mlflow." not in source:  # no name can be there: it is not parsed
                continue
            texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
            if any(name in text for text in texts if isinstance(text, str) for name in names):
                found.add(path.relative_to(CHECKOUT).as_posix())
    assert found == SPELLERS
