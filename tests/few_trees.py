"""Few trees and small surveys, for tests of what happens to them. tests/core measures their probabilities."""

import pytest

from kgcore.config.jobs import SurveyConfig


def few_trees(patch: pytest.MonkeyPatch) -> None:
    """Fit at most 20 trees, and make surveys of few candidates.

    A survey takes 15 s otherwise, at any size of the graph: its trees learn from at least 20,000 candidates.
    """
    from kgcore.answer.population import survey
    from kgcore.combiners.boosted_trees import BoostedTrees

    _, _, *others = BoostedTrees.__init__.__defaults__
    patch.setattr(BoostedTrees.__init__, "__defaults__", (0.2, 20, *others))
    patch.setattr(survey, "SAMPLE", (2_000, 6_000))
    small_surveys(patch)


def small_surveys(patch: pytest.MonkeyPatch) -> None:
    """Set a smaller default of `survey_top`, which is a part of the key of a survey."""
    usual = SurveyConfig.__init__
    patch.setattr(SurveyConfig, "__init__", lambda self, **given: usual(self, **{"survey_top": 12_000} | given))
