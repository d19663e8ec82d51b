"""The options of the command line: a missing option is None, and a given option is read or raises an error."""

import logging
from typing import Any

import pytest
from typer.testing import CliRunner

from flows.cli.main import whole_app
from flows.cli.terminal import log_to_terminal
from kgcore.config import CalibrateConfig, TrainConfig
from kgcore.errors import InputError
from kgcore.registries import LOSSES, MODELS
from tests.pipeline import reading

app = whole_app()


def read(*words: str) -> dict[str, Any]:
    """Return what a command with the settings of training and calibration reads from the words."""
    return reading.read(words, {"train": TrainConfig, "calibrate": CalibrateConfig}, device="auto")


def test_what_is_not_on_the_command_line_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KGCAL_DEVICE", raising=False)
    assert read() == {"device": "auto", "train": TrainConfig(), "calibrate": CalibrateConfig()}
    monkeypatch.setenv("KGCAL_DEVICE", "cpu")
    assert read()["device"] == "cpu"


def test_a_default_on_the_command_line_is_given() -> None:
    words = ("--loss", "self_adversarial", "--k=100", "--no-sides-apart", "--training-strategy", "uniform")
    found = read(*words, "--calibrators", "platt,isotonic", "--weighted")
    assert found["train"].given() == {
        "loss": "self_adversarial",
        "k": 100,
        "training_strategy": {"uniform": 1.0},
        "sides_apart": False,
    }
    assert found["calibrate"].given() == {"calibrators": ("platt", "isotonic"), "weighted": True}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("log_odds=false", {"log_odds": False}),
        ("log_odds=True,filters=16", {"log_odds": True, "filters": 16.0}),
        ("norm=1", {"norm": 1.0}),
        ("alpha = 2.5e-1", {"alpha": 0.25}),
    ],
)
def test_options_of_components_are_numbers_or_switches(text: str, options: dict[str, float | bool]) -> None:
    found = read("--model-options", text)["train"].given()["model_options"]
    assert found == options
    assert repr(found) == repr(options)  # False is not 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model-options", "norm"), "--model-options 'norm': it must be NAME=VALUE, such as norm=2"),
        (("--model-options", "=1"), "--model-options '=1': it must be NAME=VALUE"),
        (("--loss-options", "margin=wide"), "the value of margin must be a number, true or false"),
        (("--training-strategy", "typed=true,uniform=1"), "the value of typed must be a number"),
        (("--training-strategy", "typed,uniform"), "--training-strategy 'typed': it must be NAME=SHARE"),
        (("--training-strategy", "typed=1", "--training-strategy", "typed=2"), "has typed twice"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(*words)


def test_the_help_shows_defaults_and_where_they_apply() -> None:
    done = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "120", "TERMINAL_WIDTH": "120"})
    words = " ".join(done.output.split())
    assert "embedding size (at least 1) [default: 100]" in words
    assert "[default: typed=0.5,similar=0.5]" in words
    assert words.count("apply only where the preset sets no value") == 1
    assert "where the preset sets no value" not in CliRunner().invoke(app, ["train", "--help"]).output


def test_the_help_shows_what_people_change_first_and_each_option_once() -> None:
    text = CliRunner().invoke(app, ["run", "--help"]).output
    usual, *advanced = text.split("\nAdvanced options of ")
    assert [section.split(":")[0] for section in advanced][:2] == ["prepare", "calibrate"]
    for first, later in (("--dataset", "--split-seed"), ("--base-rate ", "--combine-folds"), ("--model ", "--dropout")):
        assert first in usual
        assert later not in usual
        assert text.count(f"\n  {later}") == text.count(f"\n  {first}") == 1


@pytest.mark.parametrize("entry", ["run", "train", "tune"])
def test_the_help_shows_the_options_of_each_model_and_loss_on_a_line(entry: str) -> None:
    lines = [line.split() for line in CliRunner().invoke(app, [entry, "--help"]).output.splitlines()]
    for registry in (MODELS, LOSSES):
        with_options = {name: registry.options(name) for name in registry.names() if registry.options(name)}
        assert with_options
        for name, options in with_options.items():
            assert [name, *", ".join(f"{k}={v.lower()}" for k, v in options.items()).split()] in lines


def test_messages_are_printed_once_however_many_commands_ran_in_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        log_to_terminal()
    logging.getLogger("kgcal").info("prepare re-used")
    assert capsys.readouterr().err.count("prepare re-used") == 1
