"""The settings of the stage choose: the race that chooses a model and its training settings for a graph."""

from dataclasses import dataclass
from typing import ClassVar

from kgcore.config.base import Config, setting
from kgcore.config.choices import ALL, GAIN, OBJECTIVES, POPULATIONS
from kgcore.errors import InputError


@dataclass(frozen=True, kw_only=True)
class ChooseConfig(Config):
    """The race of the preset `auto`. It uses the validation split, and never the test split."""

    stage: ClassVar[str] = "choose"

    minutes: float = setting(
        0.0,
        "time limit of the race in minutes; the model that is best by then is trained to its end; 0 = no limit",
        ge=0,
    )
    race_metric: str = setting(
        GAIN,
        "metric on the validation split that decides the race; gain: the mean over `judged_on` of how much better a "
        "model is than a forecast that knows nothing",
        choices=(*OBJECTIVES,),
    )
    judged_on: str = setting(
        ALL,
        "populations whose gain decides the race: hard negatives, the answers to queries, missing facts, or all three",
        choices=(ALL, *POPULATIONS),
    )
    race_seed: int = setting(0, "seed of the random draws from the validation triples in the race", ge=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.judged_on != ALL and self.race_metric != GAIN:
            raise InputError(
                f"judged_on is {self.judged_on}, but race_metric is {self.race_metric}: only the gain is about it"
            )
