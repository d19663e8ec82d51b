"""classify: compute probabilities and decisions for the test split."""

import numpy as np

from kgcore.config import CalibrateConfig, ClassifyConfig
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.running import Stage, StageRun
from tasks.tracking.artifacts import CALIBRATOR, COUNTS, EVIDENCE, PREDICTIONS, SCORES
from tasks.tracking.record import labelled_metrics


def _body(run: StageRun, config: ClassifyConfig) -> None:
    from kgcore.measure.evaluation.predictions import classify

    fitted, base_rate = run.load_models(CALIBRATOR), run.config(CalibrateConfig).rate.value
    evidence = run.load(EVIDENCE) if "evidence" in run.inputs else None
    table, rng = run.load(SCORES), np.random.default_rng(0)
    predictions = classify(table, fitted, run.load(COUNTS)["predicates"], base_rate, config, evidence, rng)
    run.save(PREDICTIONS, predictions)
    rules = predictions.accuracy_per_relation
    metrics: dict[str | None, dict[str, float]] = {}
    metrics[run.model_ids("train")[0]] = {f"per_relation.{rule}.accuracy": value for rule, value in rules.items()}
    for bound, model_id in zip(fitted, run.model_ids("calibrate"), strict=True):
        metrics[model_id] = labelled_metrics(bound.label, {"accuracy": predictions.accuracies[bound.label]})
    run.log_model_metrics(metrics)


CLASSIFY = Stage(
    name="classify",
    summary="Classify the test triples with every calibrator, and with per-relation thresholds.",
    title="classify by {calibrators}",
    config=ClassifyConfig,
    body=_body,
    code=lambda config: ("kgcore.measure.evaluation.predictions",),
    inputs={"calibrators": CALIBRATE},
)
