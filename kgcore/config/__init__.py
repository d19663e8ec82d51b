"""The settings, as frozen dataclasses that define every default once, and the presets for settings that are not given.

base.py has the fields and their checks, stages.py and jobs.py have the settings, and choices.py has the fixed choices.
given.py has settings that may be missing. recipes.py has the values of the presets. presets.py decides every setting.
This folder contains no mathematics.
"""

from kgcore.config.base import LIMITS, Config, describe
from kgcore.config.given import (
    CalibrateGiven,
    ClassifyGiven,
    CorruptGiven,
    EvaluateGiven,
    Given,
    PipelineGiven,
    PrepareGiven,
    TrainGiven,
)
from kgcore.config.jobs import EnsembleConfig, GateConfig, TuneConfig, WatchConfig
from kgcore.config.stages import (
    CalibrateConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    PipelineConfigs,
    PrepareConfig,
    RankConfig,
    ReportConfig,
    ScoreConfig,
    TrainConfig,
)

__all__ = [
    "LIMITS",
    "CalibrateConfig",
    "CalibrateGiven",
    "ClassifyConfig",
    "ClassifyGiven",
    "Config",
    "CorruptConfig",
    "CorruptGiven",
    "EnsembleConfig",
    "EvaluateConfig",
    "EvaluateGiven",
    "GateConfig",
    "Given",
    "PipelineConfigs",
    "PipelineGiven",
    "PrepareConfig",
    "PrepareGiven",
    "RankConfig",
    "ReportConfig",
    "ScoreConfig",
    "TrainConfig",
    "TrainGiven",
    "TuneConfig",
    "WatchConfig",
    "describe",
]
