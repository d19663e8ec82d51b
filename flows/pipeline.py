"""The whole pipeline as a Prefect flow, and recalibration: the part of the pipeline that follows training."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect.context import FlowRunContext

from flows.deployment.flow import flow
from flows.deployment.names import resolved_name
from flows.deployment.parameters import Device, PresetOrNone, RunId
from flows.deployment.publish import publish
from kgcore.config import (
    CalibrateGiven,
    ClassifyGiven,
    CorruptGiven,
    EvaluateGiven,
    PipelineConfigs,
    PipelineGiven,
    PrepareGiven,
    RankConfig,
    ReportConfig,
    ScoreConfig,
    TrainGiven,
    presets,
)
from tasks.jobs.pipeline import LATEST, finish_pipeline, pipeline_run, resolve
from tasks.jobs.recalibrate import earlier, recalibration_run
from tasks.stages.base import Context, StageRef
from tasks.stages.calibrate import calibrate_scores, move_calibrators, upstream_of
from tasks.stages.classify import classify_triples
from tasks.stages.corrupt import corrupt_triples
from tasks.stages.evaluate import evaluate_predictions
from tasks.stages.prepare import add_labels, prepare_data
from tasks.stages.rank import rank_triples
from tasks.stages.report import write_report
from tasks.stages.score import score_triples
from tasks.stages.train import adopt_model, train_model


@flow(name="pipeline", flow_run_name=resolved_name())
def pipeline(
    prepare: PrepareGiven = PrepareGiven(),
    train: TrainGiven = TrainGiven(),
    corrupt: CorruptGiven = CorruptGiven(),
    calibrate: CalibrateGiven = CalibrateGiven(),
    classify: ClassifyGiven = ClassifyGiven(),
    evaluate: EvaluateGiven = EvaluateGiven(),
    preset: PresetOrNone = "default",
    force: bool = False,
    device: Device = "auto",
) -> dict[str, Any]:
    """Turn a data set into calibrated probabilities and a report; returns the summary of the results.

    Args:
        prepare: the graph
        train: the embedding model and its training
        corrupt: the corruptions that serve as negatives in synthetic calibration
        calibrate: how scores become probabilities
        classify: decisions from probabilities
        evaluate: how calibration is measured
        preset: values for the settings of train, corrupt and calibrate that are not given. default: good and fast;
            best: better proper scores, slower; paper: the protocol of the paper; none: no preset
        force: run every stage, even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    given = PipelineGiven(prepare, train, corrupt, calibrate, classify, evaluate)
    resolved = presets.resolve(preset, given)
    context = Context(force=force, device=device)
    summary = run_pipeline(resolved.configs, context, _flow_run_id(), resolved.parameters)
    publish(summary)
    return summary


def run_pipeline(
    configs: PipelineConfigs,
    context: Context,
    flow_run: str | None = None,
    preset: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Run the stages in their order under one MLflow run; returns the summary of the results.

    context   its parent is the MLflow run of the grid, if this pipeline is a cell of a grid
    flow_run  id of the Prefect flow run, if there is one
    preset    MLflow parameters that say which preset was used: see `Resolved.parameters`
    """
    with pipeline_run(vars(configs), context.device, flow_run, context.parent, preset) as run_id:
        context = replace(context, parent=run_id)

        data = prepare_data(configs.prepare, context)
        model = train_model(data, configs.train, context)
        return finish_pipeline(run_id, after_training(data, model, configs, context))


@flow(name="recalibrate", flow_run_name="recalibrate {model}")
def recalibrate(
    model: RunId = LATEST,
    labels: str = "",
    instead: bool = False,
    base_rate: float | None = None,
    refit: bool = False,
    force: bool = False,
    device: Device = "auto",
) -> dict[str, Any]:
    """Recalibrate a trained model for new labels or a new base rate, without training.

    All other settings are those of the named run.

    Args:
        model: run id of a training or of a run that used its model, URI of a model or calibrator, or latest
        labels: file of newly labelled triples (subject, predicate, object, 1 or -1) to add to the validation split
        instead: replace the validation split by the labelled triples
        base_rate: share of positives that the probabilities assume; none = as before
        refit: fit the calibrators again even without new labels; otherwise shift the fitted ones to the base rate
        force: run every stage that is not taken over, even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    trained, configs = earlier(model, base_rate)
    fitted = None if refit or labels or base_rate is None else resolve("calibrate", model)
    file = Path(labels) if labels else None
    with recalibration_run(trained, configs, file, instead, device, _flow_run_id()) as run_id:
        context = Context(parent=run_id, force=force, device=device)
        data = resolve("prepare", trained.run_id)
        if file is not None:
            data = add_labels(data, file, instead, context)
        stages = after_training(data, adopt_model(trained, data, context), configs, context, fitted)
        summary = finish_pipeline(run_id, stages)
    publish(summary)
    return summary


def after_training(
    data: StageRef, model: StageRef, configs: PipelineConfigs, context: Context, fitted: StageRef | None = None
) -> dict[str, StageRef]:
    """Run the stages from corrupt to report; returns the references of all stages by name, prepare and train included.

    fitted  calibrators to shift to the base rate; None = fit new ones
    """
    if fitted is None:
        corruptions = corrupt_triples(data, model, configs.corrupt, context)
        scores = score_triples(model, corruptions, ScoreConfig(), context)
        calibrators = calibrate_scores(scores, configs.calibrate, context)
    else:
        corruptions, scores = upstream_of(fitted)
        calibrators = move_calibrators(fitted, configs.calibrate.base_rate, context)
    predictions = classify_triples(calibrators, configs.classify, context)
    ranks = rank_triples(model, RankConfig(), context)
    evaluation = evaluate_predictions(predictions, ranks, configs.evaluate, context)
    report = write_report(evaluation, ReportConfig(), context)
    stages = (data, model, corruptions, scores, calibrators, predictions, ranks, evaluation, report)
    return {ref.stage: ref for ref in stages}


def _flow_run_id() -> str | None:
    """The id of the current Prefect flow run; None outside a flow run."""
    context = FlowRunContext.get()
    return str(context.flow_run.id) if context and context.flow_run else None
