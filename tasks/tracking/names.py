"""What things are called in MLflow, where people filter, sort and chart by these names, and on the command line."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from kgcore.config import Config
from kgcore.config.presets import NONE

_SHORT = {"ground_truth": "gt", "synthetic": "syn"}


def short_label(label: str) -> str:
    """A calibrator's label, `ground_truth.isotonic`, as metrics have it: `gt.isotonic`, or `uncalibrated`."""
    negatives, _, name = label.rpartition(".")
    return f"{_SHORT[negatives]}.{name}" if negatives else name


def shares_text(shares: Mapping[str, float]) -> str:
    """Corruption strategies and their shares: `typed`, or `typed=0.5 uniform=0.5`."""
    return next(iter(shares)) if len(shares) == 1 else " ".join(f"{name}={share:g}" for name, share in shares.items())


def run_command(configs: Iterable[Config]) -> str:
    """The `kgcal run` with these settings: those that are not the defaults, as options, and no preset."""
    words = ["kgcal", "run", "--preset", NONE]
    for config in configs:
        usual = type(config)()
        for item in fields(config):
            value = getattr(config, item.name)
            if value != getattr(usual, item.name):
                words += _option(item.name.replace("_", "-"), value)
    return shlex.join(words)


def _option(name: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    if isinstance(value, dict):
        return [f"--{name}", ",".join(f"{key}={number!r}" for key, number in value.items())]
    return [f"--{name}", ",".join(value) if isinstance(value, tuple) else str(value)]
