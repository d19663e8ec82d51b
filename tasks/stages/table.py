"""The table of stages, in the order of the pipeline. Flows, deployments, MLproject and tests are generated from it."""

from collections.abc import Mapping
from typing import Any, TypeVar

from tasks.stages.calibrate import CALIBRATE
from tasks.stages.choose import CHOOSE
from tasks.stages.classify import CLASSIFY
from tasks.stages.corrupt import CORRUPT
from tasks.stages.evaluate import EVALUATE
from tasks.stages.evidence import EVIDENCE_STAGE
from tasks.stages.match import MATCH
from tasks.stages.prepare import PREPARE
from tasks.stages.rank import RANK
from tasks.stages.report import REPORT
from tasks.stages.running import Stage
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN

T = TypeVar("T")
STAGES: tuple[Stage[Any], ...] = (
    PREPARE,
    CHOOSE,
    TRAIN,
    MATCH,
    CORRUPT,
    SCORE,
    EVIDENCE_STAGE,
    CALIBRATE,
    CLASSIFY,
    RANK,
    EVALUATE,
    REPORT,
)


def in_order(by_stage: Mapping[str, T]) -> dict[str, T]:
    """Return the mapping with its keys in the order of the pipeline.

    by_stage  its keys are names of stages, or STAGE.NUMBER for members of an ensemble

    Raises ValueError if a key has an unknown stage.
    """
    names = [stage.name for stage in STAGES]

    def place(name: str) -> tuple[int, int]:
        stage, _, number = name.partition(".")
        return names.index(stage), int(number or 0)

    return {name: by_stage[name] for name in sorted(by_stage, key=place)}
