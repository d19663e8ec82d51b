"""The settings with their defaults, as frozen dataclasses, and the presets for settings that the user does not give.

base.py      the base class of all settings, and the checks of their values
choices.py   the allowed names of settings that no registry lists
prepare.py   the settings of the graph
split.py     the parts of the setting `split`
calibrate.py the settings of calibration: the base rate, and the candidates
evidence.py  the settings of the evidence that calibrators see beside the score
stages.py    the settings of the other stages
pipeline.py  the settings of a whole pipeline
jobs.py      the settings of promote, watch, predict, base-rate, explain, tune and ensemble
scores.py    the settings of calibrate-scores
imports.py   the settings of imported models
survey.py    the settings of surveys, which nobody gives
race.py      the settings of the stage choose, which chooses the settings of train by a race
given.py     the settings that the user gives; the others are None
recipes.py   the values of the presets
presets.py   the decision of every setting from the given values, a preset and the defaults
portfolio.py the settings that take part in a race
entries.py   the contenders of a race, from the portfolio and the given settings
schema.py    the allowed values in JSON schemas, for the forms of Prefect

A default stands in one place only. This folder contains no mathematics.
"""

from kgcore.base_rate import ASSUMED, ESTIMATED, STATED
from kgcore.config.base import LIMITS, Config, describe
from kgcore.config.calibrate import ASSUMED_BASE_RATE, CalibrateConfig, MatchConfig
from kgcore.config.choices import EXAM_SHARE
from kgcore.config.evidence import EvidenceConfig
from kgcore.config.given import (
    CalibrateGiven,
    ChooseGiven,
    ClassifyGiven,
    CorruptGiven,
    EvaluateGiven,
    EvidenceGiven,
    Given,
    MatchGiven,
    PipelineGiven,
    PrepareGiven,
    TrainGiven,
)
from kgcore.config.imports import ImportConfig
from kgcore.config.jobs import (
    AuditConfig,
    BaseRateConfig,
    DiscoverConfig,
    EnsembleConfig,
    ExplainConfig,
    GateConfig,
    PairsConfig,
    PredictConfig,
    TuneConfig,
    WatchConfig,
)
from kgcore.config.pipeline import PipelineConfigs
from kgcore.config.prepare import PrepareConfig
from kgcore.config.race import ChooseConfig
from kgcore.config.scores import ScoresConfig
from kgcore.config.stages import (
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    RankConfig,
    ReportConfig,
    ScoreConfig,
    TrainConfig,
)

__all__ = [
    "ASSUMED",
    "ASSUMED_BASE_RATE",
    "ESTIMATED",
    "EXAM_SHARE",
    "LIMITS",
    "STATED",
    "AuditConfig",
    "BaseRateConfig",
    "CalibrateConfig",
    "CalibrateGiven",
    "ChooseConfig",
    "ChooseGiven",
    "ClassifyConfig",
    "ClassifyGiven",
    "Config",
    "CorruptConfig",
    "CorruptGiven",
    "DiscoverConfig",
    "EnsembleConfig",
    "EvaluateConfig",
    "EvaluateGiven",
    "EvidenceConfig",
    "EvidenceGiven",
    "ExplainConfig",
    "GateConfig",
    "Given",
    "ImportConfig",
    "MatchConfig",
    "MatchGiven",
    "PairsConfig",
    "PipelineConfigs",
    "PipelineGiven",
    "PredictConfig",
    "PrepareConfig",
    "PrepareGiven",
    "RankConfig",
    "ReportConfig",
    "ScoreConfig",
    "ScoresConfig",
    "TrainConfig",
    "TrainGiven",
    "TuneConfig",
    "WatchConfig",
    "describe",
]
