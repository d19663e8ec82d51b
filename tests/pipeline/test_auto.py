"""The preset `auto` as a user runs it on a folder: the race, its results, and what is re-used."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from flows.jobs.tune import tune
from flows.pipeline import pipeline
from kgcore.config import (
    CalibrateConfig,
    ChooseConfig,
    CorruptConfig,
    MatchConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    TuneConfig,
    presets,
    race,
)
from kgcore.errors import InputError
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.pipeline import log_choice, log_train_command
from tasks.stages import train as train_stage
from tasks.stages.choose import CHOOSE, best_settings, chosen_settings, race_of, raced_settings
from tasks.stages.prepare import PREPARE
from tasks.stages.running import StageRef
from tasks.tracking.artifacts import CHOSEN, RACE, RACE_TABLE
from tasks.tracking.record import RunTags
from tasks.tracking.store import open_store
from tests.conftest import FEW_CORRUPTIONS, FEW_REPLICATES, use_home
from tests.folders import VALID, write_folder

TINY = TrainConfig(k=8, epochs=9, batch_size=300, training_eta=2)
PORTFOLIO = {
    "complex": TrainConfig(model="complex", learning_rate=0.1),
    "broken": TrainConfig(model="distmult", learning_rate=1e30),
}


@pytest.fixture(scope="module")
def folder(quick_trees: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Write a folder of triples, and use a home and a portfolio of two settings beside the usual ones."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        use_home(home, patch)
        patch.setattr(race, "contenders", lambda rows, entities, predicates: PORTFOLIO)
        yield write_folder(home / "mine")


def run(folder: Path, **settings: object) -> PipelineSummary:
    quick = {
        "corrupt": FEW_CORRUPTIONS,
        "calibrate": CalibrateConfig(calibrators=("platt",)),
        "evaluate": FEW_REPLICATES,
    }
    return pipeline.fn(prepare=PrepareConfig(dataset=str(folder)), **{"train": TINY, **quick, **settings})


@pytest.fixture(scope="module")
def first(folder: Path) -> PipelineSummary:
    with pytest.MonkeyPatch.context() as patch:
        trained = list[int]()
        patch.setattr(train_stage, "_on_epoch", lambda *given: lambda epoch, loss: trained.append(epoch))
        made = run(folder)
    assert trained == []  # the stage train has taken over the whole training of the race
    return made


def test_the_race_chooses_and_its_model_is_not_trained_again(first: PipelineSummary, folder: Path) -> None:
    race, store = first.race, open_store()
    assert race is not None
    assert {row.name: row.state for row in race.rows}["broken"] == "failed"
    assert sorted(row.state for row in race.rows) == ["chosen", "failed", "out"]
    assert race.winner.epochs == 9
    assert (first.model, first.loss) == (race.winner.settings["model"], race.winner.settings["loss"])
    losses = store.series(first.runs["train"], "loss")
    assert len(losses) == 9
    assert not [*(store.home / "checkpoints").rglob("*.*")]
    assert PipelineSummary.from_json(json.loads(json.dumps(first.to_json()))).race == race


def test_what_was_tried_is_in_mlflow_and_in_the_report(first: PipelineSummary) -> None:
    store, chosen = open_store(), first.runs["choose"]
    params = store.get(first.pipeline).params
    assert params["preset"] == "auto"
    assert {"model", "learning_rate"} <= set(params["preset.filled"].split(","))
    assert "k" not in params["preset.filled"].split(",")
    assert (params["model"], params["k"]) == (first.model, "8")
    assert store.get(first.pipeline).name == "mine auto"
    tried = store.find(RunTags(stage="contender", parent=chosen), newest=10)
    assert {run.name: run.tags.state for run in tried} == {
        f"contender {row.name}": row.state for row in store.load(chosen, RACE).rows
    }
    table = store.load(chosen, RACE_TABLE)
    assert table["contender"].tolist() == [row.name for row in store.load(chosen, RACE).rows]
    assert TrainConfig(**store.load(chosen, CHOSEN)).model == first.model
    page = Path(first.report).read_text()
    assert "The choice of the model" in page
    assert "<code>broken</code> failed" in page


def test_the_page_of_the_race_in_mlflow_and_the_model_card_have_its_table(first: PipelineSummary) -> None:
    store = open_store()
    note = store.get(first.runs["choose"]).tags.note
    assert note is not None
    assert "| configuration | epochs | gain | hard | MRR | missing | seconds | result |" in note
    assert "| broken | 0 of 9 |" in note
    assert race_of(store, store.get(first.runs["train"])) == first.race


def test_train_without_settings_names_the_command_for_those_of_the_race(
    first: PipelineSummary, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = StageRef("prepare", first.runs["prepare"])
    with caplog.at_level(logging.INFO, "kgcal"):
        log_choice(data, TrainConfig(seed=3))
        assert caplog.text == ""
        log_choice(data, TrainConfig())
    assert f"a race on this graph (run {first.runs['choose']}) chose other settings" in caplog.text
    assert f"to train with these settings: kgcal train --data {data.run_id} " in caplog.text


def test_another_base_rate_re_uses_the_race_and_the_model(first: PipelineSummary, folder: Path) -> None:
    again = run(folder, calibrate=CalibrateConfig(base_rate=0.01, calibrators=("platt",)))
    assert {"prepare", "choose", "train"} <= set(again.reused)
    assert again.runs["choose"] == first.runs["choose"]


def test_a_search_starts_with_the_settings_that_the_race_has_chosen(first: PipelineSummary, folder: Path) -> None:
    data, usual = StageRef("prepare", first.runs["prepare"]), TrainConfig(model="rotate")
    chosen = chosen_settings(StageRef("choose", first.runs["choose"]))
    assert raced_settings(data, TrainConfig(), usual) == chosen
    assert raced_settings(data, TrainConfig(model=chosen.model, k=9), usual) == chosen.replace(k=9)
    assert raced_settings(data, TrainConfig(model="kg2e"), usual) == usual
    assert raced_settings(data, TrainConfig(loss="nll"), usual) == usual
    assert raced_settings(StageRef("prepare", "of another graph"), TrainConfig(), usual) == usual


def test_a_search_after_a_run_begins_there(
    first: PipelineSummary, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = TuneConfig(trials=1, search=("learning_rate",), most_epochs=9)
    with caplog.at_level(logging.INFO, "kgcal"):
        tune.fn(prepare=PrepareConfig(dataset=str(folder)), train=TINY, corrupt=FEW_CORRUPTIONS, config=config)
    assert f"tune      starts with {first.model} {first.loss}, which the race has chosen" in caplog.text
    [search] = open_store().find(RunTags(stage="tune"))
    assert search.name == f"tune mine {first.model} {first.loss}"
    assert (search.params["k"], search.tags.inputs) == ("8", {"prepare": first.runs["prepare"]})


@pytest.mark.long
def test_the_best_contenders_become_an_ensemble(first: PipelineSummary, folder: Path) -> None:
    made = run(folder, ensemble=3)
    assert made.runs["train"] == first.runs["train"]
    assert made.race is not None
    assert made.ensemble is not None
    healthy = [row.settings["model"] for row in made.race.rows if row.state != "failed"]
    assert sorted(member.model for member in made.ensemble.members) == sorted(healthy) == ["complex", "transe"]
    assert made.runs["calibrate"] in {member.calibrate for member in made.ensemble.members}
    assert open_store().get(made.ensemble.run).tags.parent == made.pipeline
    assert PipelineSummary.from_json(json.loads(json.dumps(made.to_json()))).ensemble == made.ensemble


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ensemble": 1}, "--ensemble is 1: an ensemble has at least 2 models"),
        ({"ensemble": 2, "preset": "default"}, "this pipeline has no race: add --preset auto"),
        (
            {"ensemble": 2, "match": MatchConfig(candidates="test")},
            "--ensemble and --candidates cannot",
        ),
        (
            {"ensemble": 2, "corrupt": CorruptConfig(calibration_strategy={"nearest": 1.0})},
            "--ensemble cannot be used with the strategy nearest",
        ),
    ],
)
def test_an_ensemble_that_cannot_be_is_refused_before_a_run(
    folder: Path, settings: dict[str, object], sentence: str
) -> None:
    before = len(open_store().find(RunTags(), newest=1000))
    with pytest.raises(InputError, match=sentence):
        run(folder, **settings)
    assert len(open_store().find(RunTags(), newest=1000)) == before


def test_one_configuration_makes_no_ensemble(folder: Path) -> None:
    given = PipelineConfigs(train=TrainConfig(model="hole"))
    data = PREPARE(config=PrepareConfig(dataset=str(folder)))
    choice = CHOOSE(data, config=presets.resolve("auto", given).configs.choose)
    with pytest.raises(InputError, match="there was no race: the given settings leave one configuration"):
        best_settings(choice, 2)


def test_a_given_model_that_leaves_one_configuration_has_no_race(folder: Path) -> None:
    data = PREPARE(config=PrepareConfig(dataset=str(folder)))
    given = PipelineConfigs(train=TrainConfig(model="hole"))
    choice = CHOOSE(data, config=presets.resolve("auto", given).configs.choose)
    assert open_store().load(choice.run_id, RACE).sentences() == [
        "There was no race: the given settings leave one configuration. The training settings are those of `default`."
    ]
    assert chosen_settings(choice).model == "hole"


def test_a_graph_that_cannot_be_measured_has_no_race(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    few = write_folder(folder.parent / "few", valid=VALID[:1])
    data = PREPARE(config=PrepareConfig(dataset=str(few)))
    with caplog.at_level(logging.INFO, "kgcal"):
        choice = CHOOSE(data, config=ChooseConfig())
        log_train_command(choice)
    assert chosen_settings(choice) == TrainConfig()
    assert f"to train with these settings: kgcal train --data {data.run_id}" in caplog.text
    assert "There was no race: the validation split has 1 triples of one label" in caplog.text
