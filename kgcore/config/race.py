"""The settings of the stage choose: the race that chooses a model and its training settings for a graph."""

from dataclasses import dataclass
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.config.choices import OBJECTIVES


@dataclass(frozen=True, kw_only=True)
class ChooseConfig(Config):
    """The race of the preset `auto`. It uses the validation split, and never the test split."""

    stage: ClassVar[str] = "choose"

    minutes: float = setting(
        0.0,
        "time limit of the race in minutes; the model that is best by then is trained to its end; 0 = no limit",
        ge=0,
    )
    race_metric: str = setting("brier", "metric on the validation split that decides the race", choices=(*OBJECTIVES,))
    race_seed: int = setting(0, "seed of the random halves of the validation triples in the race", ge=0)
