"""What the user gives of the settings: None means "not given"; every other value is given and checked."""

import json

import pytest

from kgcore import config
from kgcore.config import CorruptConfig, PipelineConfigs, PrepareConfig, TrainConfig
from kgcore.config.base import BY_PRESET
from kgcore.errors import InputError
from tests.forms import shown

KINDS = [kind for kind in vars(config).values() if isinstance(kind, type) and issubclass(kind, config.Config)]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_that_are_not_given_are_no_json(kind: type[config.Config]) -> None:
    assert kind().given() == json.loads(kind().model_dump_json()) == {}
    assert kind().over(kind()) == kind() == kind.model_validate({})


@pytest.mark.parametrize("kind", KINDS)
def test_a_form_says_what_applies_if_a_setting_is_not_given(kind: type[config.Config]) -> None:
    for name, schema in shown(kind.model_json_schema()).items():
        item = kind.model_fields[name]
        assert "default" not in schema  # the form would send it as given
        assert schema["description"].startswith(item.description)
        assert ("the preset's value in a pipeline, otherwise" in schema["description"]) == (name in BY_PRESET)
        assert ("If not given: " in schema["description"]) == (item.default not in (None, ""))


def test_json_keeps_what_is_given_and_nothing_else() -> None:
    given = TrainConfig(k=100, loss_options={"margin": 2})
    assert given.model_dump_json() == '{"loss_options":{"margin":2.0},"k":100}'
    assert TrainConfig.model_validate_json(given.model_dump_json()).given() == given.given()


def test_a_default_that_is_given_is_given() -> None:
    defaults = TrainConfig().as_dict()
    assert TrainConfig(**defaults).given() == defaults
    assert TrainConfig(loss="self_adversarial", epochs=None).given() == {"loss": "self_adversarial"}


def test_given_settings_replace_others_and_options_one_by_one() -> None:
    config = TrainConfig(k=50, epochs=7, loss_options={"margin": 1.5}, training_strategy={"typed": 1.0})
    given = TrainConfig(k=100, loss_options={"alpha": 0.25}, training_strategy={"uniform": 1.0})
    expected = {"margin": 1.5, "alpha": 0.25}
    assert given.over(config) == TrainConfig(k=100, epochs=7, loss_options=expected)
    assert given.over(TrainConfig(epochs=7)).given() == given.given() | {"epochs": 7}
    assert PipelineConfigs(train=given).over(PipelineConfigs(train=config)).train == given.over(config)


def test_what_one_adds_to_the_other() -> None:
    mine = TrainConfig(k=50, epochs=7, loss_options={"margin": 1.5})
    assert mine.added_to(TrainConfig(k=100)) == ("loss_options", "epochs")
    assert mine.added_to(TrainConfig(loss_options={"margin": 3.0, "alpha": 0.5})) == ("k", "epochs")
    assert mine.added_to(TrainConfig(loss_options={"alpha": 0.5})) == ("loss_options", "k", "epochs")
    both = PipelineConfigs(PrepareConfig(size=300), mine)
    assert both.added_to(PipelineConfigs(train=TrainConfig(k=1))) == ("size", "loss_options", "epochs")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainConfig(k=0), "k is 0: it must be at least 1"),
        (lambda: TrainConfig(model="transx"), "unknown model 'transx'"),
        (lambda: TrainConfig(training_sides="left"), "training_sides is 'left': it must be one of subject"),
        (lambda: CorruptConfig(calibration_strategy={"kbgan": 1.0}), "learns during training, and can be used only"),
        (
            lambda: TrainConfig(training_sides="object").over(TrainConfig(inverse_relations=True)),
            "with inverse relations both sides must be corrupted",
        ),
    ],
)
def test_a_bad_value_is_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(InputError, match="unknown setting 'kk': the known ones are model, "):
        TrainConfig(kk=3)
