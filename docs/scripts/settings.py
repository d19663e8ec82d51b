"""Write docs/reference/settings.md from kgcore/config: every setting with its default, range and description.

python docs/scripts/settings.py
"""

from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from kgcore import config
from kgcore.config import LIMITS, Config
from kgcore.registry import Registry

PAGE = Path(__file__).parents[1] / "reference" / "settings.md"
GROUPS: dict[str, tuple[tuple[str, type[Config]], ...]] = {
    "Stages": (
        ("prepare", config.PrepareConfig),
        ("choose", config.ChooseConfig),
        ("train", config.TrainConfig),
        ("match", config.MatchConfig),
        ("corrupt", config.CorruptConfig),
        ("evidence", config.EvidenceConfig),
        ("calibrate", config.CalibrateConfig),
        ("classify", config.ClassifyConfig),
        ("evaluate", config.EvaluateConfig),
    ),
    "Jobs": (
        ("tune", config.TuneConfig),
        ("ensemble", config.EnsembleConfig),
        ("promote", config.GateConfig),
        ("watch", config.WatchConfig),
        ("predict", config.PredictConfig),
        ("audit", config.AuditConfig),
        ("predict, all pairs", config.PairsConfig),
        ("base-rate", config.BaseRateConfig),
        ("calibrate-scores", config.ScoresConfig),
        ("import", config.ImportConfig),
        ("explain", config.ExplainConfig),
        ("discover", config.DiscoverConfig),
    ),
}
HEAD = """\
# Settings

Each setting is an option of the commands that use it: `training_eta` is `--training-eta`. In Prefect forms, MLflow
parameters and `MLproject` it keeps its underscores. A preset fills in what you do not give; the defaults here are those
of `--preset none`. `score`, `rank` and `report` have no settings.

This page is generated from `kgcore/config` by `make generated`.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for title, group in GROUPS.items():
        parts.append(f"## {title}\n")
        for name, kind in group:
            rows = [_row(item) for item in fields(kind)]
            table = "\n".join(["| setting | default | values | meaning |", "|---|---|---|---|", *rows])
            parts.append(f"### {name}\n\n{_text(kind)}\n\n{table}\n")
    return "\n".join(parts)


def _text(kind: type[Config]) -> str:
    """Return the docstring of the settings, with each paragraph on one line."""
    paragraphs = (kind.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _row(item: "Field[Any]") -> str:
    description = str(item.metadata["description"]).replace("|", "\\|")
    return f"| `{item.name}` | {_default(item)} | {_values(item)} | {description} |"


def _default(item: "Field[Any]") -> str:
    value = item.default if item.default is not MISSING else item.default_factory()  # type: ignore[misc]
    if value is None:
        return "none"
    if isinstance(value, dict):
        text = ",".join(f"{name}={share:g}" for name, share in value.items())
    elif isinstance(value, tuple):
        text = ",".join(value)
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{text}`" if text else "none"


def _values(item: "Field[Any]") -> str:
    """Return the values that the setting accepts: names, options or a range."""
    choices = item.metadata.get("choices")
    if choices is not None:
        return ", ".join(f"`{name}`" for name in (choices.names() if isinstance(choices, Registry) else choices))
    if "choices_text" in item.metadata:
        return str(item.metadata["choices_text"])
    if (registry := item.metadata.get("options_of")) is not None:
        found = {name: registry.options(name) for name in registry.names()}
        rows = (f"{name}: {', '.join(f'`{o}={v}`' for o, v in own.items())}" for name, own in found.items() if own)
        return "; ".join(rows)
    if limits := [f"{LIMITS[name][0]} {item.metadata[name]:g}" for name in LIMITS if name in item.metadata]:
        return " and ".join(limits)
    return "true, false" if isinstance(item.default, bool) else ""


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
