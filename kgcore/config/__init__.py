"""What can be set: frozen dataclasses that hold every default once, and the presets that fill in what is not given.

base.py has the fields and their checks, stages.py and jobs.py the settings, choices.py the fixed choices, presets.py
the presets. No mathematics lives here.
"""

from kgcore.config.base import LIMITS, Config, describe
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
    "ClassifyConfig",
    "Config",
    "CorruptConfig",
    "EnsembleConfig",
    "EvaluateConfig",
    "GateConfig",
    "PipelineConfigs",
    "PrepareConfig",
    "RankConfig",
    "ReportConfig",
    "ScoreConfig",
    "TrainConfig",
    "TuneConfig",
    "WatchConfig",
    "describe",
]
