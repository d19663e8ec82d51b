"""evaluate: what the probabilities are worth."""

from kgcore import storage
from kgcore.config import EvaluateConfig
from kgcore.evaluation.by_relation import reliability_by_relation
from kgcore.evaluation.evaluate import Measured, evaluate
from kgcore.evaluation.predictions import Predictions
from kgcore.report.summary import markdown, summarise, with_intervals
from tasks.stages.base import Context, StageRef, StageRun, run_stage, stage_task
from tasks.stages.calibrate import calibrator_params, read_calibrator
from tasks.tracking.names import short_label
from tasks.workspace.progress import progress_bar


@stage_task
def evaluate_predictions(
    predictions: StageRef, ranks: StageRef, config: EvaluateConfig = EvaluateConfig(), context: Context = Context()
) -> StageRef:
    """Proper scores, calibration and discrimination of every calibrator, with intervals, beside the ranks.
    Artifacts: measured.json, summary.json."""
    code = ("kgcore.evaluation.evaluate", "kgcore.evaluation.by_relation", "kgcore.report.summary")

    def body(run: StageRun) -> None:
        judged = run.load("classify", "predictions.parquet", storage.read_predictions)
        measured = _evaluate(run, judged, config)
        rank_metrics = run.load("rank", "ranks.json", storage.read_json)
        storage.write_measured(run.folder / "measured.json", measured)
        summary = summarise(measured, judged.accuracy_per_relation, rank_metrics)
        names = run.load("prepare", "graph/predicates.parquet", storage.read_names)
        summary["relations"] = [
            {"name": names[row["predicate"]]} | row | reliable
            for row, reliable in zip(judged.relations, reliability_by_relation(judged), strict=True)
        ]
        summary["notes"] = judged.notes(run.config("calibrate")["base_rate"])
        storage.write_json(run.folder / "summary.json", summary)
        run.store.log_tags(run.run_id, {"mlflow.note.content": markdown(summary | {"runs": run.inputs})})
        fitted = run.load_models("calibrate", read_calibrator)
        for bound, model_id in zip(fitted, run.model_ids("calibrate"), strict=True):
            result, label = measured[bound.label], short_label(bound.label)
            metrics = with_intervals(result.metrics(), result.intervals)
            run.log_metrics({f"{label}.{name}": value for name, value in metrics.items()}, model_id=model_id)
            params = calibrator_params(run, bound)
            run.log_measurement(f"{params['model']} {params['loss']} {label}", params, metrics, model_id)

    return run_stage("evaluate", config, (predictions, ranks), code, body, context)


def _evaluate(run: StageRun, judged: Predictions, config: EvaluateConfig) -> dict[str, Measured]:
    """What is measured of the predictions, corruptions being resampled with the positives that they were made from."""
    source = None
    if judged.synthetic_negatives:
        source = run.load("corrupt", "corruptions.parquet", storage.read_corruptions)["test"].source
    with progress_bar("evaluate", config.bootstrap_replicates) as bar:
        return evaluate(judged, config, run.config("classify")["tau"], source, on_replicate=bar)
