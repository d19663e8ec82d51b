"""The settings of a whole pipeline."""

from dataclasses import dataclass, replace

from kgcore.config.prepare import PrepareConfig
from kgcore.config.stages import (
    CalibrateConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    TrainConfig,
)


@dataclass(frozen=True)
class PipelineConfigs:
    """The settings of a whole pipeline, by stage. The corruptions are drawn for the base rate of the calibration."""

    prepare: PrepareConfig = PrepareConfig()
    train: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()
    calibrate: CalibrateConfig = CalibrateConfig()
    classify: ClassifyConfig = ClassifyConfig()
    evaluate: EvaluateConfig = EvaluateConfig()

    def __post_init__(self) -> None:
        drawn = replace(self.corrupt, for_base_rate=self.calibrate.alpha)
        object.__setattr__(self, "corrupt", drawn)
