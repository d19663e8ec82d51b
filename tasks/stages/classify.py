"""classify: probabilities and decisions on the test split."""

from kgcore import storage
from kgcore.config import ClassifyConfig
from kgcore.evaluation.predictions import classify
from tasks.stages.base import Context, StageRef, StageRun, run_stage, stage_task
from tasks.stages.calibrate import read_calibrator
from tasks.tracking.names import short_label


@stage_task
def classify_triples(
    calibrators: StageRef, config: ClassifyConfig = ClassifyConfig(), context: Context = Context()
) -> StageRef:
    """Decide the test triples with every calibrator and with per-relation thresholds. Artifact: predictions.parquet."""
    code = ("kgcore.evaluation.predictions",)

    def body(run: StageRun) -> None:
        table = run.load("score", "scores.parquet", storage.read_scores)
        num_predicates = run.load("prepare", "counts.json", storage.read_json)["predicates"]
        fitted = run.load_models("calibrate", read_calibrator)
        predictions = classify(table, fitted, num_predicates, run.config("calibrate")["base_rate"], config)
        storage.write_predictions(run.folder / "predictions.parquet", predictions)
        for bound, model_id in zip(fitted, run.model_ids("calibrate"), strict=True):
            accuracy = predictions.accuracies[bound.label]
            run.log_metrics({f"{short_label(bound.label)}.accuracy": accuracy}, model_id=model_id)
        rules = predictions.accuracy_per_relation
        per_relation = {f"per_relation.{rule}.accuracy": value for rule, value in rules.items()}
        run.log_metrics(per_relation, model_id=run.model_ids("train")[0])

    return run_stage("classify", config, (calibrators,), code, body, context)
