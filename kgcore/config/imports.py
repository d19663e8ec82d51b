"""The settings of imported models: which scoring function tables of embeddings belong to."""

from dataclasses import dataclass, field
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.registries import MODELS

IMPORTABLE = ("transe", "distmult", "complex", "rotate", "hole")
LAYOUTS = ("halves", "pairs")


@dataclass(frozen=True, kw_only=True)
class ImportConfig(Config):
    """The scoring function of a table of entities and a table of relations, and how their numbers are stored."""

    model: str = setting("transe", "scoring function of the embeddings", choices=IMPORTABLE)
    model_options: dict[str, float | bool] = setting({}, "options of the scoring function", options_of=MODELS)
    layout: str = setting(
        "halves",
        "where complex numbers are stored as real ones: halves = first all real, then all imaginary parts; pairs = the "
        "two parts of each number side by side",
        choices=LAYOUTS,
    )


@dataclass(frozen=True, kw_only=True)
class ImportedModel(Config):
    """What is known of an imported model: a part of `TrainConfig`. How it was trained is not known."""

    stage: ClassVar[str] = "train"

    model: str = "transe"
    model_options: dict[str, float | bool] = field(default_factory=dict)
    k: int = 1
