"""The contenders of a race: the portfolio with the settings that the user gives."""

import pytest

from kgcore.config import (
    CalibrateConfig,
    ChooseConfig,
    CorruptConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    presets,
)
from kgcore.config import race as module
from kgcore.config.base import BY_PRESET, OBJECTIVES
from kgcore.config.race import RaceConfig, contenders, entries
from kgcore.embed.training.loop import built
from kgcore.errors import InputError

PORTFOLIO = {
    "a": TrainConfig(epochs=50),
    "b": TrainConfig(model="complex", loss="multiclass_nll", k=50),
    "c": TrainConfig(model="complex", k=50, inverse_relations=True),
    "d": TrainConfig(model="rotate"),
}


def race_of(dataset: str = "./mine", minutes: float = 0.0, preset: str | None = None, **train: object) -> RaceConfig:
    given = PipelineConfigs(PrepareConfig(dataset=dataset), TrainConfig(**train), choose=ChooseConfig(minutes=minutes))
    config = presets.resolve(preset, given).configs.choose
    assert isinstance(config, RaceConfig)
    return config


def names(monkeypatch: pytest.MonkeyPatch, **train: object) -> list[str]:
    monkeypatch.setattr(module, "contenders", lambda rows, entities, predicates: PORTFOLIO)
    return list(entries(race_of(**train), 10, 10, 2))


def test_the_given_settings_are_those_of_every_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(monkeypatch) == ["default", "a", "b", "c", "d"]
    found = entries(race_of(k=7, seed=3), 10, 10, 2)
    assert {(config.k, config.seed) for config in found.values()} == {(7, 3)}
    assert found["b"] == TrainConfig(model="complex", loss="multiclass_nll", k=7, seed=3)
    assert names(monkeypatch, epochs=100) == ["default", "b", "c", "d"]  # a is then the same as default


def test_a_graph_with_confidences_has_further_contenders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "contenders", lambda rows, entities, predicates: PORTFOLIO)
    found = entries(race_of(), 230_000, 10, 2, confidences=True)
    assert list(found) == ["default", "distmult confidence", "complex confidence", "a", "b", "c", "d"]
    assert (found["complex confidence"].loss, found["complex confidence"].epochs) == ("confidence", 20)


def test_a_given_model_or_loss_leaves_its_contenders(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(monkeypatch, model="complex") == ["default", "b", "c"]
    assert names(monkeypatch, model="complex", loss="multiclass_nll") == ["default", "b"]
    assert names(monkeypatch, model="hole") == ["default"]
    assert names(monkeypatch, loss="multiclass_nll") == ["default", "b"]
    assert names(monkeypatch, loss_options={"margin": 2.0}) == ["default", "a", "c", "d"]
    assert names(monkeypatch, model_options={"norm": 2.0}) == ["default", "a"]
    # no contender has the loss: all of them get it
    assert names(monkeypatch, loss="pairwise") == ["default", "a", "b", "c", "d"]


def test_contenders_that_contradict_the_given_settings_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names(monkeypatch, training_sides="object") == ["default", "a", "b", "d"]


def test_the_race_is_for_graphs_without_settings_of_their_own() -> None:
    for name in ("wn11", "family"):
        given = PipelineConfigs(PrepareConfig(dataset=name))
        found = presets.resolve(None, given)
        assert (found.preset, isinstance(found.configs.choose, RaceConfig)) == ("default", False)
        assert isinstance(presets.resolve("auto", given).configs.choose, RaceConfig)
    for name in ("codex-s", "./mine", "/data/mine.tsv"):
        given = PipelineConfigs(PrepareConfig(dataset=name))
        found = presets.resolve(None, given)
        assert found.preset == "auto"
        assert set(found.filled) == BY_PRESET & {*vars(TrainConfig())}
        assert presets.resolve(None, given, races=False).preset == "default"
        assert presets.resolve("default", given).configs.choose == type(found.configs).choose
    assert "k" not in presets.resolve("auto", PipelineConfigs(train=TrainConfig(k=3))).filled


def test_a_race_has_the_settings_of_its_pipeline() -> None:
    found = race_of(model="complex", minutes=2.5)
    assert (found.minutes, found.train) == (2.5, TrainConfig(model="complex"))
    assert (found.usual.model, found.usual.epochs) == ("complex", 30)
    assert found.parameters()["given.model"] == "complex"
    with pytest.raises(InputError, match="minutes is 3: only the race of the preset auto has a time limit"):
        race_of("wn11", minutes=3)
    with pytest.raises(InputError, match="unknown preset 'auto': the known ones are default, best, paper, none"):
        presets.resolve("auto", PipelineConfigs(), races=False)


def test_a_race_draws_its_negatives_without_a_model() -> None:
    given = PipelineConfigs(corrupt=CorruptConfig(calibration_strategy={"nearest": 0.5, "typed": 0.5}))
    found = presets.resolve("auto", given).configs.choose
    assert isinstance(found, RaceConfig)
    assert found.negatives.calibration_strategy == CorruptConfig().calibration_strategy
    low = PipelineConfigs(calibrate=CalibrateConfig(base_rate=0.01))
    assert presets.resolve("auto", low).configs.choose == presets.resolve("auto", PipelineConfigs()).configs.choose
    typed = PipelineConfigs(corrupt=CorruptConfig(calibration_strategy={"typed": 1.0}))
    assert presets.resolve("auto", typed).configs.choose.negatives.calibration_strategy == {"typed": 1.0}


@pytest.mark.parametrize("sizes", [(50, 20, 1), (5_000, 135, 46), (87_000, 41_000, 11), (5_000_000, 800_000, 900)])
def test_every_contender_of_the_portfolio_can_be_trained(sizes: tuple[int, int, int]) -> None:
    found = contenders(*sizes)
    assert len(found) > 1
    for settings in found.values():
        built(settings.over(TrainConfig()))
        assert settings.given().keys() <= BY_PRESET  # `mlflow run` passes on the others as if they had been given


def test_the_metrics_of_a_race_are_those_of_a_search() -> None:
    for name in OBJECTIVES:
        assert RaceConfig(race_metric=name).race_metric == name
    with pytest.raises(InputError, match="judged_on is answers, but race_metric is brier: only the gain is about it"):
        RaceConfig(race_metric="brier", judged_on="answers")
