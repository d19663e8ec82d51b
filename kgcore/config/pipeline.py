"""The settings of a whole pipeline."""

from dataclasses import dataclass, replace

from kgcore.base_rate import ESTIMATED
from kgcore.config.calibrate import CalibrateConfig, MatchConfig
from kgcore.config.evidence import EvidenceConfig
from kgcore.config.prepare import PrepareConfig
from kgcore.config.race import ChooseConfig
from kgcore.config.stages import (
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    TrainConfig,
)


@dataclass(frozen=True)
class PipelineConfigs:
    """The settings of a whole pipeline, by stage. Corruptions and candidates are for the base rate of calibration.

    match   no candidates: the pipeline has no stage match
    choose  a RaceConfig: a race chooses the settings `train`. Otherwise the pipeline has no stage choose
    """

    prepare: PrepareConfig = PrepareConfig()
    train: TrainConfig = TrainConfig()
    corrupt: CorruptConfig = CorruptConfig()
    calibrate: CalibrateConfig = CalibrateConfig()
    classify: ClassifyConfig = ClassifyConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    match: MatchConfig = MatchConfig()
    choose: ChooseConfig = ChooseConfig()
    evidence: EvidenceConfig = EvidenceConfig()

    def __post_init__(self) -> None:
        drawn = replace(self.corrupt, for_base_rate=self.calibrate.alpha)
        object.__setattr__(self, "corrupt", drawn)
        if self.calibrate.base_rate_is != ESTIMATED:
            object.__setattr__(self, "match", replace(self.match, match_base_rate=self.calibrate.base_rate))
