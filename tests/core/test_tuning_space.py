"""The space of a search: every draw is valid for training, and a search starts from the settings that the user gave."""

import warnings
from dataclasses import replace

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.trial import FixedTrial

from kgcore.config import TrainConfig
from kgcore.config.base import SEARCHABLE
from kgcore.registries import MODELS
from kgcore.registry import build
from kgcore.wings.tuning.space import RANGES, STEPS, Space


@pytest.mark.parametrize("model", MODELS.names())
def test_every_draw_can_be_built_and_is_within_its_range(model: str) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space(TrainConfig(model=model, batch_size=77, seed=5), SEARCHABLE, 100)
    drawn = [space.suggest(study.ask()) for _ in range(40)]
    for config in drawn:
        build(MODELS.get(model), {}, config.k)
        assert (config.model, config.batch_size, config.seed) == (model, 77, 5)
        assert 4 <= config.epochs <= 100
        assert RANGES["learning_rate"][0] <= config.learning_rate <= RANGES["learning_rate"][1]
        assert config.learning_rate == float(f"{config.learning_rate:.3g}")
        assert RANGES["initial_scale"][0] <= config.initial_scale <= RANGES["initial_scale"][1]
        assert RANGES["training_eta"][0] <= config.training_eta <= RANGES["training_eta"][1]
        assert config.lp_weight == 0 or RANGES["lp_weight"][0] <= config.lp_weight <= RANGES["lp_weight"][1]
    for name, steps in STEPS.items():
        drops = name != "dropout" or MODELS.get(model).can_drop
        assert {getattr(config, name) for config in drawn} == (set(steps) if drops else {0})
    assert {tuple(config.training_strategy.items()) for config in drawn} == {
        (("uniform", 1.0),),
        (("typed", 1.0),),
        (("typed", 0.5), ("uniform", 0.5)),
    }
    assert {config.training_sides for config in drawn} == {"both", "object=0.75", "bernoulli"}
    assert {config.lp_power for config in drawn if config.lp_weight} == {2, 3}
    assert any(config.lp_weight == 0 for config in drawn)


BASES = st.builds(
    TrainConfig,
    learning_rate=st.floats(1e-6, 10),
    lp_weight=st.just(0.0) | st.floats(1e-7, 100),
    lp_power=st.sampled_from([1.5, 2.0, 3.0]),
    dropout=st.sampled_from([0.0, 0.25, 0.5, 0.9]),
    initial_scale=st.floats(0.01, 100),
    inverse_relations=st.booleans(),
    cohort_weight=st.sampled_from([0.0, 0.3, 0.5]),
    epochs=st.integers(1, 60),
    training_strategy=st.sampled_from(
        [{"uniform": 1.0}, {"typed": 0.5, "uniform": 0.5}, {"batch": 1.0}, {"typed": 2.0}]
    ),
    training_sides=st.sampled_from(["both", "object=0.75", "object=0.9", "bernoulli"]),
    k=st.sampled_from([8, 100, 350]),
    training_eta=st.integers(1, 1000),
)


SETTINGS = [{"lp_weight", "lp_power"}, *({name} for name in set(SEARCHABLE) - {"regulariser"})]


@given(base=BASES, seed=st.integers(0, 100), searched=st.sets(st.sampled_from(SEARCHABLE), min_size=1))
def test_a_search_starts_from_any_base_settings(base: TrainConfig, seed: int, searched: set[str]) -> None:
    space = Space(base, searched, 60)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    starts = space.starts()
    for start in starts:
        study.enqueue_trial(start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Optuna warns of a value out of range
        first, *neighbours = [space.suggest(study.ask()) for _ in starts]
    assert first == base
    for near in neighbours:
        changed = {name for name, value in near.as_dict().items() if value != getattr(base, name)}
        assert any(changed <= group and changed for group in SETTINGS)
    other = space.suggest(study.ask())
    if "epochs" in searched:
        assert min(base.epochs, 4) <= other.epochs <= 60
    fewer = replace(space, most_epochs=4)
    assert fewer.suggest(FixedTrial(fewer.start())) == base.replace(
        epochs=min(base.epochs, 4) if "epochs" in searched else base.epochs
    )


@pytest.mark.parametrize("name", SEARCHABLE)
def test_only_searched_settings_change(name: str) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    space = Space(TrainConfig(), [name], 100)
    changed = {
        setting
        for _ in range(20)
        for setting, value in space.suggest(study.ask()).as_dict().items()
        if value != getattr(space.base, setting)
    }
    assert changed == ({"lp_weight", "lp_power"} if name == "regulariser" else {name})
