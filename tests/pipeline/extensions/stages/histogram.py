"""histogram: how the test probabilities are spread."""

from typing import ClassVar

import numpy as np

from kgcore.config import Config
from kgcore.config.base import setting
from kgcore.storage.folders import read_json, write_json
from tasks.stages.classify import CLASSIFY
from tasks.stages.running import Stage, StageRun
from tasks.tracking.artifacts import PREDICTIONS, Artifact


class HistogramConfig(Config):
    """Settings of the histogram."""

    stage: ClassVar[str] = "histogram"

    buckets: int = setting(10, "intervals of equal width that probabilities are counted in", ge=1)


COUNTS: Artifact[dict[str, list[int]]] = Artifact("histogram", "counts.json", read_json, write_json)


def _body(run: StageRun, config: HistogramConfig) -> None:
    probabilities = run.load(PREDICTIONS).probabilities
    counts = {label: np.histogram(q, config.buckets, (0, 1))[0].tolist() for label, q in probabilities.items()}
    run.save(COUNTS, counts)
    run.log_metrics({"triples": len(next(iter(probabilities.values())))})


HISTOGRAM = Stage(
    name="histogram",
    summary="Count the test probabilities by intervals.",
    title="histogram of {predictions}",
    config=HistogramConfig,
    body=_body,
    code=lambda config: ("kgcore.measure.evaluation.predictions",),
    inputs={"predictions": CLASSIFY},
)
