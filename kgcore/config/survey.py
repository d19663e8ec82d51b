"""The settings of a survey, which a question about missing facts runs. Its run records them; nobody gives them."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from kgcore.config.base import Config, setting


@dataclass(frozen=True, kw_only=True)
class SurveyConfig(Config):
    """The draw of candidates from a population, to which probabilities are calibrated."""

    stage: ClassVar[str] = "survey"

    survey_top: int = setting(300_000, "candidates with the highest scores whose evidence is weighed", ge=1)
    survey_rest: int = setting(60_000, "candidates that stand for all others", ge=1)
    survey_seed: int = setting(0, "seed of the draw, of the combiners and of the bootstrap", ge=0)

    def for_list(self, top: int) -> Self:
        """Return the settings for a list of `top` candidates: the survey has five times as many."""
        return replace(self, survey_top=max(self.survey_top, 5 * top))
