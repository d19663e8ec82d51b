"""Settings and registries: defaults, ranges, and an error of one sentence for every value that is not allowed."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from kgcore import config
from kgcore.base_rate import BaseRate
from kgcore.config import (
    CalibrateConfig,
    CorruptConfig,
    MatchConfig,
    PrepareConfig,
    TrainConfig,
)
from kgcore.errors import InputError
from kgcore.registries import CALIBRATORS, DATASETS, LOSSES, MODELS, POOLS, STRATEGIES
from kgcore.registry import Registry

CONFIGS = [c for c in vars(config).values() if isinstance(c, type) and issubclass(c, config.Config)]


@pytest.mark.parametrize("cls", CONFIGS)
def test_every_setting_has_a_default_and_a_description(cls: type[config.Config]) -> None:
    built = cls()
    for name, item in cls.model_fields.items():
        assert item.description, name
    with pytest.raises(ValidationError, match="frozen"):
        built.anything = 1


def test_names_of_settings_are_unique_over_the_stages() -> None:
    names = [name for cls in CONFIGS if cls.stage for name in cls.model_fields]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainConfig(k=0), "k is 0: it must be at least 1"),
        (lambda: TrainConfig(training_eta=0), "training_eta is 0: it must be at least 1"),
        (lambda: TrainConfig(learning_rate=0.0), r"learning_rate is 0\.0: it must be above 0"),
        (lambda: TrainConfig(learning_rate=float("nan")), "learning_rate is nan"),
        (lambda: TrainConfig(learning_rate=float("inf")), "learning_rate is inf"),
        (lambda: TrainConfig(model="transx"), "unknown model 'transx': the known ones are .*distmult, .*transe"),
        (lambda: TrainConfig(loss="hinge"), "unknown loss 'hinge': the known ones are"),
        (
            lambda: CorruptConfig(calibration_sides="left"),
            "sides is 'left': it must be one of subject, object, both, bernoulli",
        ),
        (lambda: CorruptConfig(calibration_strategy={"odd": 1.0}), "unknown corruption strategy 'odd'"),
        (
            lambda: CorruptConfig(calibration_strategy={"kbgan": 1.0}),
            "calibration_strategy is 'kbgan': this strategy learns during training, and can be used only there",
        ),
        (lambda: CorruptConfig(calibration_strategy={"typed": 0.0}), "every share must be above 0"),
        (
            lambda: TrainConfig(inverse_relations=True, training_sides="object"),
            "training_sides is object: with inverse relations both sides must be corrupted",
        ),
        (lambda: CalibrateConfig(calibrators=()), "calibrators is empty: it needs at least one entry"),
        (lambda: CalibrateConfig(base_rate=0.0), r"base_rate is 0\.0: it must be above 0 and below 1"),
        (lambda: CalibrateConfig(base_rate=1.5), r"base_rate is 1\.5"),
        (lambda: CalibrateConfig(calibrators=("platt", "plat")), "unknown calibrator 'plat'"),
        (lambda: PrepareConfig(size=3), "size is 3: it must be at least 200"),
    ],
)
def test_a_bad_value_is_refused_in_one_sentence(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("registry", [MODELS, LOSSES, CALIBRATORS, STRATEGIES, DATASETS, POOLS])
def test_every_name_of_a_registry_has_a_component_and_a_module(registry: Registry) -> None:
    assert registry.names()
    for name in registry.names():
        assert registry.get(name) is not None
        assert registry.module(name)


def test_a_component_is_added_once_and_removed() -> None:
    MODELS.add("mine", MODELS.get("transe"))
    try:
        assert "mine" in MODELS.names()
        with pytest.raises(ValueError, match="registered twice"):
            MODELS.add("mine", MODELS.get("transe"))
    finally:
        MODELS.remove("mine")
    assert "mine" not in MODELS.names()


def test_naming_components_imports_no_torch() -> None:
    script = "import sys, kgcore.config; print('torch' in sys.modules, 'pandera' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_ends_of_a_base_rate_come_together() -> None:
    both = {"base_rate_low": 0.01, "base_rate_high": 0.05}
    assert str(CalibrateConfig(**both).rate) == "0.0225 [0.01, 0.05], stated"
    assert CalibrateConfig(**both, base_rate=0.02).rate.value == 0.02
    assert CalibrateConfig(**both).at(BaseRate(0.3)) == CalibrateConfig(base_rate=0.3)
    for wrong in ({"base_rate_low": 0.01}, {"base_rate_high": 0.5, "base_rate": 0.2}, both | {"base_rate_low": 0.06}):
        with pytest.raises(InputError, match="give the lower end, then the upper end"):
            CalibrateConfig(**wrong)
    with pytest.raises(InputError, match=r"base_rate is 0\.5: it must be in its interval, 0\.01 to 0\.05"):
        CalibrateConfig(**both, base_rate=0.5)


def test_hard_strategies_need_a_stated_base_rate() -> None:
    assert MatchConfig().strategies == ("relational", "typed", "uniform")
    assert MatchConfig(match_base_rate=0.5).strategies[-2:] == ("near_miss", "nearest")
    stated, assumed = CalibrateConfig(base_rate=0.1).rate, CalibrateConfig().rate
    assert (MatchConfig().at(stated).match_base_rate, CorruptConfig().at(stated).for_base_rate) == (0.1, 0.1)
    assert MatchConfig(match_base_rate=0.2).at(assumed).match_base_rate is None
    estimated = CalibrateConfig(base_rate=0.1, base_rate_from="estimated").rate
    assert MatchConfig().at(estimated).match_base_rate is None
