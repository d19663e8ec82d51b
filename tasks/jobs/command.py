"""Writes settings as a `kgcal run` command that the user can copy."""

import shlex
from collections.abc import Iterable
from dataclasses import fields

from kgcore.config import Config
from kgcore.config.presets import NONE


def run_command(configs: Iterable[Config]) -> str:
    """Return the `kgcal run` command for these settings.

    It uses no preset, and has an option for each setting that differs from its default.
    """
    words = ["kgcal", "run", "--preset", NONE]
    for config in configs:
        usual = type(config)()
        for item in fields(config):
            value = getattr(config, item.name)
            if value != getattr(usual, item.name):
                words += _option(item.name.replace("_", "-"), value)
    return shlex.join(words)


def _option(name: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}", ",".join(f"{key}={number!r}" for key, number in value.items())]
    return [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
