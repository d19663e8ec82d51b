"""Surveys of few candidates, for tests of what happens to a survey. A process that imports this module makes them.

A survey takes 15 s otherwise, at any size of the graph: its trees learn from at least 20,000 candidates.
tests/core/test_population_calibration.py measures the probabilities of larger surveys.
"""

from kgcore.config.survey import SurveyConfig
from kgcore.population import survey

SurveyConfig.__init__.__kwdefaults__.update(survey_top=12_000, survey_rest=2_000)
survey.SAMPLE = (2_000, 6_000)
