"""The experiments of MLflow: data sets and decisions apart, described, and homes that earlier versions wrote."""

from pathlib import Path

import pytest

from kgcore.errors import InputError
from tasks.tracking.experiments import DECISIONS, _created
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.tracking.ui import best_runs_page, run_page
from tasks.workspace.settings import own_uri

[NOTE] = RunTags(note="").to_mlflow()  # MLflow's tag of the description


def opened(store: Store, stage: str, parent: str | None = None) -> str:
    """Open and end a run of a stage, and return its id."""
    with store.open_run(stage, RunTags(stage=stage, parent=parent, dataset="family")) as run_id:
        return run_id


def experiment(store: Store, run_id: str) -> str:
    """Return the name of the experiment that a run is in."""
    return str(store.client.get_experiment(store.client.get_run(run_id).info.experiment_id).name)


def names_of(store: Store) -> list[str]:
    """Return the names of kgcal's experiments, oldest first."""
    return [found.name for found in store.client.search_experiments(order_by=["experiment_id"])][1:]


def test_a_data_set_has_an_experiment_and_decisions_are_apart(home: Path) -> None:
    store = Store(own_uri())
    pipeline, promotion = opened(store, "pipeline"), opened(store, "promote")
    assert names_of(store) == ["kgcal", "kgcal/family", "kgcal-decisions"]
    assert experiment(store, opened(store, "train", pipeline)) == experiment(store, pipeline) == "kgcal/family"
    assert experiment(store, opened(store, "score", promotion)) == "kgcal-decisions"
    assert {experiment(store, opened(store, stage)) for stage in DECISIONS} == {"kgcal-decisions"}
    assert {experiment(Store(own_uri()), opened(Store(own_uri()), "watch"))} == {"kgcal-decisions"}
    assert len(store.find(RunTags(dataset="family"), newest=100)) == 5 + len(DECISIONS)
    with store.open_run("train", RunTags(stage="train", inputs={"prepare": pipeline})) as run_id:  # a single stage
        assert experiment(store, run_id) == "kgcal/family"
    for stage, dataset in (("reproduction", None), ("calibrate-scores", "scores.csv")):
        with store.open_run(stage, RunTags(stage=stage, dataset=dataset)) as run_id:
            assert experiment(store, run_id) == "kgcal"
    places = {found.artifact_location for found in store.client.search_experiments() if found.name != "Default"}
    assert places == {(home / "artifacts").as_uri()}


def test_a_named_experiment_has_the_pipelines_of_all_data_sets(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "team")
    store = Store(own_uri())
    assert [experiment(store, opened(store, stage)) for stage in ("pipeline", "watch")] == ["team", "team-decisions"]
    assert names_of(store) == ["team", "team-decisions"]


def test_each_experiment_says_what_it_is_and_how_to_compare(home: Path) -> None:
    store = Store(own_uri())
    promotion, pipeline = opened(store, "promote"), opened(store, "pipeline")
    for run_id, condition in ((promotion, "'promote'"), (pipeline, "'pipeline'")):
        found = store.client.get_experiment(store.client.get_run(run_id).info.experiment_id)
        [condition] = [part for part in found.tags[NOTE].split("``") if condition in part]
        [run] = store.client.search_runs(
            [found.experiment_id], condition.partition(" and ")[0]
        )  # the filter of the text works
        assert run.info.run_id == run_id
    assert "kgcal/family" in store.client.get_experiment(store.experiment_id).tags[NOTE]


def test_a_home_of_an_earlier_version_keeps_its_runs_and_gets_the_description(home: Path) -> None:
    store = Store(own_uri())
    old = store.client.create_run(store.experiment_id, tags=RunTags(stage="promote").to_mlflow()).info.run_id
    store.client.set_terminated(old)
    store.client.delete_experiment_tag(store.experiment_id, NOTE)
    again = Store(own_uri())
    new = opened(again, "promote")
    assert {run.run_id for run in again.find(RunTags(stage="promote"), newest=5)} == {old, new}
    assert [experiment(again, run_id) for run_id in (old, new)] == ["kgcal", "kgcal-decisions"]
    assert "kgcal-decisions" in again.client.get_experiment(again.experiment_id).tags[NOTE]
    with again.open_run("promote", RunTags(stage="promote"), resume=old) as run_id:  # as `kgcal watch` does
        assert run_id == old
    assert experiment(again, old) == "kgcal"


def test_a_description_that_the_user_has_written_stays(home: Path) -> None:
    store = Store(own_uri())
    store.client.set_experiment_tag(store.experiment_id, NOTE, "Ours.")
    assert Store(own_uri()).client.get_experiment(store.experiment_id).tags[NOTE] == "Ours."


def test_the_page_of_a_decision_is_in_its_experiment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "team")
    store = open_store()
    run_id = opened(store, "predict")
    assert experiment(store, run_id) == "team-decisions"
    monkeypatch.setattr("tasks.tracking.ui.ui_address", lambda: "http://127.0.0.1:5000")
    own = store.client.get_run(run_id).info.experiment_id
    assert run_page(run_id) == f"http://127.0.0.1:5000/#/experiments/{own}/runs/{run_id}"


def test_the_view_of_a_comparison_is_in_the_experiment_of_the_measurements(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.tracking.ui.ui_address", lambda: "http://127.0.0.1:5000")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "kgcal-wn11")
    with open_store().open_run("measured", RunTags(stage="measurement", test="rows")) as run_id:
        pass
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    store = open_store()
    assert experiment(store, opened(store, "pipeline")) == "kgcal/family"
    page = best_runs_page("wn11", "rows")
    found = store.client.get_experiment(store.client.get_run(run_id).info.experiment_id)
    assert found.name == "kgcal-wn11"
    assert page is not None
    assert page.startswith(f"http://127.0.0.1:5000/#/experiments/{found.experiment_id}/runs?viewStateShareKey=")
    assert "mlflow.sharedViewState.kgcal-wn11-rows" in found.tags


def test_an_experiment_that_another_machine_creates_meanwhile_is_used(home: Path) -> None:
    client, place = Store(own_uri()).client, (home / "artifacts").as_uri()
    first, second = (_created(client, "kgcal/wn11", place, {"of": machine}) for machine in ("one", "two"))
    assert first == second
    assert client.get_experiment(first).tags["of"] == "one"


def test_a_deleted_experiment_of_decisions_is_reported(home: Path) -> None:
    store = Store(own_uri())
    run_id = opened(store, "predict")
    store.client.delete_experiment(store.client.get_run(run_id).info.experiment_id)
    with pytest.raises(InputError, match="the MLflow experiment kgcal-decisions is deleted: restore it"):
        opened(Store(own_uri()), "predict")
