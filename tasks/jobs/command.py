"""Writes settings as a `kgcal run` or `kgcal train` command that the user can copy."""

import logging
import shlex
from collections.abc import Iterable

from kgcore.config import Config, TrainConfig
from kgcore.config.presets import NONE
from tasks.stages.choose import choices_for, chosen_settings
from tasks.stages.reference import StageRef
from tasks.tracking.store import open_store

log = logging.getLogger("kgcal")


def run_command(configs: Iterable[Config]) -> str:
    """Return the `kgcal run` command for these settings.

    It uses no preset, and has an option for each setting that differs from its default.
    """
    words = ["kgcal", "run", "--preset", NONE]
    for config in configs:
        words += _options(config)
    return shlex.join(words)


def log_train_command(choice: StageRef) -> None:
    """Log the `kgcal train` command for the settings that a choose run has chosen."""
    data = open_store().get(choice.run_id).tags.inputs["prepare"]
    words = ["kgcal", "train", "--data", data, *_options(chosen_settings(choice))]
    log.info("to train with these settings: %s", shlex.join(words))


def log_choice(data: StageRef, used: TrainConfig) -> None:
    """If no setting was given, but a race on the graph chose other ones, log the command that trains with them."""
    for choice in choices_for(open_store(), data.run_id)[:1] if used == TrainConfig() else ():
        ref = StageRef("choose", choice)
        if chosen_settings(ref) != used:
            log.info("train     a race on this graph (run %s) chose other settings", choice)
            log_train_command(ref)


def _options(config: Config) -> list[str]:
    """Return an option for each setting that differs from its default."""
    usual = type(config)().as_dict()
    changed = {name: value for name, value in config.as_dict().items() if value != usual[name]}
    return [word for name, value in changed.items() for word in _option(name.replace("_", "-"), value)]


def _option(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}", ",".join(f"{key}={number!r}" for key, number in value.items())]
    return [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
