"""The settings with their defaults, as frozen pydantic models, and the presets for settings that nobody gives.

base.py       the base class of all settings: what is given, the allowed values, and the JSON schema
calibrate.py  the settings of calibration: the base rate, the candidates, and the evidence beside the score
stages.py     the settings of the other stages
race.py       the race of the preset `auto`: its portfolio and its contenders
jobs.py       the settings of all jobs outside a pipeline
presets.py    the values of the presets, and the decision of every setting of a pipeline

A default stands in one place only. What a user gives is known to the settings: `Config.given`. This folder contains no
mathematics.
"""

from kgcore.config.base import EXAM_SHARE, Config, describe
from kgcore.config.calibrate import ASSUMED_BASE_RATE, CalibrateConfig, EvidenceConfig, MatchConfig
from kgcore.config.jobs import (
    AuditConfig,
    BaseRateConfig,
    DiscoverConfig,
    EnsembleConfig,
    ExplainConfig,
    GateConfig,
    ImportConfig,
    PairsConfig,
    PredictConfig,
    ScoresConfig,
    TuneConfig,
    WatchConfig,
)
from kgcore.config.presets import PipelineConfigs
from kgcore.config.stages import (
    ChooseConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    PrepareConfig,
    RankConfig,
    ReportConfig,
    ScoreConfig,
    TrainConfig,
)

__all__ = [
    "ASSUMED_BASE_RATE",
    "EXAM_SHARE",
    "AuditConfig",
    "BaseRateConfig",
    "CalibrateConfig",
    "ChooseConfig",
    "ClassifyConfig",
    "Config",
    "CorruptConfig",
    "DiscoverConfig",
    "EnsembleConfig",
    "EvaluateConfig",
    "EvidenceConfig",
    "ExplainConfig",
    "GateConfig",
    "ImportConfig",
    "MatchConfig",
    "PairsConfig",
    "PipelineConfigs",
    "PredictConfig",
    "PrepareConfig",
    "RankConfig",
    "ReportConfig",
    "ScoreConfig",
    "ScoresConfig",
    "TrainConfig",
    "TuneConfig",
    "WatchConfig",
    "describe",
]
