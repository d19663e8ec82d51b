"""Settings that may be missing: None means "not given"; every other value is given and checked."""

from dataclasses import asdict, fields

import pytest

from kgcore.config import CorruptGiven, Given, PipelineConfigs, PipelineGiven, PrepareGiven, TrainConfig, TrainGiven
from kgcore.config.given import BY_PRESET
from kgcore.errors import InputError


@pytest.mark.parametrize("kind", Given.__subclasses__())
def test_a_counterpart_has_the_settings_of_its_config_and_gives_none(kind: type[Given]) -> None:
    assert [item.name for item in fields(kind)] == [item.name for item in fields(kind.config)]
    assert kind().given() == {}
    assert kind().over(kind.config()) == kind.config()


@pytest.mark.parametrize("kind", Given.__subclasses__())
def test_the_description_says_what_applies_if_a_setting_is_not_given(kind: type[Given]) -> None:
    for item, own in zip(fields(kind), fields(kind.config), strict=True):
        text = item.metadata["description"]
        assert text.startswith(f"{own.metadata['description']}. If not given: ")
        assert ("the preset's value, otherwise" in text) == (item.name in BY_PRESET)


def test_a_default_that_is_given_is_given() -> None:
    defaults = asdict(TrainConfig())
    assert TrainGiven(**defaults).given() == defaults
    assert TrainGiven(loss="self_adversarial", epochs=None).given() == {"loss": "self_adversarial"}


def test_given_settings_replace_others_and_options_one_by_one() -> None:
    config = TrainConfig(k=50, epochs=7, loss_options={"margin": 1.5}, training_strategy={"typed": 1.0})
    given = TrainGiven(k=100, loss_options={"alpha": 0.25}, training_strategy={"uniform": 1.0})
    expected = {"margin": 1.5, "alpha": 0.25}
    assert given.over(config) == TrainConfig(k=100, epochs=7, loss_options=expected)
    assert given.over(TrainGiven(epochs=7)).given() == given.given() | {"epochs": 7}
    assert PipelineGiven(train=given).over(PipelineConfigs(train=config)).train == given.over(config)


def test_what_one_adds_to_the_other() -> None:
    mine = TrainGiven(k=50, epochs=7, loss_options={"margin": 1.5})
    assert mine.added_to(TrainGiven(k=100)) == ("loss_options", "epochs")
    assert mine.added_to(TrainGiven(loss_options={"margin": 3.0, "alpha": 0.5})) == ("k", "epochs")
    assert mine.added_to(TrainGiven(loss_options={"alpha": 0.5})) == ("loss_options", "k", "epochs")
    both = PipelineGiven(PrepareGiven(size=300), mine)
    assert both.added_to(PipelineGiven(train=TrainGiven(k=1))) == ("size", "loss_options", "epochs")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TrainGiven(k=0), "k is 0: it must be at least 1"),
        (lambda: TrainGiven(model="transx"), "unknown model 'transx'"),
        (lambda: TrainGiven(training_sides="left"), "training_sides is 'left': it must be one of subject"),
        (lambda: CorruptGiven(calibration_strategy={"kbgan": 1.0}), "learns during training, and can be used only"),
        (
            lambda: TrainGiven(training_sides="object").over(TrainConfig(inverse_relations=True)),
            "with inverse relations both sides must be corrupted",
        ),
    ],
)
def test_a_bad_value_is_refused(make, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_a_misspelt_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="kk"):
        TrainGiven(kk=3)
