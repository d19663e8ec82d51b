"""Write docs/reference/settings.md from kgcore/config: every setting with its default, range and description.

python docs/scripts/settings.py
"""

from pathlib import Path

from pydantic.fields import FieldInfo

from kgcore import config
from kgcore.config import Config
from kgcore.config.base import Options, choices_of, limits_of, value_text

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
        ("rank", config.RankConfig),
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
            rows = [_row(*item) for item in kind.model_fields.items()]
            table = "\n".join(["| setting | default | values | meaning |", "|---|---|---|---|", *rows])
            parts.append(f"### {name}\n\n{_text(kind)}\n\n{table}\n")
    return "\n".join(parts)


def _text(kind: type[Config]) -> str:
    """Return the docstring of the settings, with each paragraph on one line."""
    paragraphs = (kind.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _row(name: str, item: FieldInfo) -> str:
    description = str(item.description).replace("|", "\\|")
    return f"| `{name}` | {_default(item)} | {_values(item)} | {description} |"


def _default(item: FieldInfo) -> str:
    text = "none" if item.default is None else value_text(item.default)
    return "none" if text in ("none", "") and item.default != "none" else f"`{text}`"


def _values(item: FieldInfo) -> str:
    """Return the values that the setting accepts: names, options or a range."""
    if choices := choices_of(item):
        return ", ".join(f"`{name}`" for name in choices.names)
    for registry in (mark.registry for mark in item.metadata if isinstance(mark, Options)):
        options = {name: registry.options(name) for name in registry.names()}
        rows = (f"{name}: {', '.join(f'`{o}={v}`' for o, v in own.items())}" for name, own in options.items() if own)
        return "; ".join(rows)
    return limits_of(item) or ("true, false" if isinstance(item.default, bool) else "")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
