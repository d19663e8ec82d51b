"""The whole pipeline as a Prefect flow, and the part of it that follows a training as another."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from flows.deployment.flow import flow
from flows.deployment.parameters import Device, PresetOrNone, RunId
from flows.deployment.publish import publish
from kgcore.config import (
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
from kgcore.config.presets import tuned
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
from tasks.workspace.flow_run import current_flow_run


@flow(name="pipeline", flow_run_name="{prepare.dataset} {train.model} {train.loss}")
def pipeline(
    prepare: PrepareConfig = PrepareConfig(),
    train: TrainConfig = TrainConfig(),
    corrupt: CorruptConfig = CorruptConfig(),
    calibrate: CalibrateConfig = CalibrateConfig(),
    classify: ClassifyConfig = ClassifyConfig(),
    evaluate: EvaluateConfig = EvaluateConfig(),
    preset: PresetOrNone = "default",
    force: bool = False,
    device: Device = "auto",
) -> dict[str, Any]:
    """From a data set to calibrated probabilities and a report; returns the summary of the results.

    Args:
        prepare: which graph
        train: the embedding model
        corrupt: the synthetic negatives
        calibrate: how scores become probabilities
        classify: decisions
        evaluate: how calibration is measured
        preset: settings of train, corrupt and calibrate for the data set, where they are left as they are: default;
            best, which is slower and has better proper scores; paper, its protocol; or none
        force: run every stage even where a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    configs = tuned(preset, PipelineConfigs(prepare, train, corrupt, calibrate, classify, evaluate))
    flow_run = _flow_run_id()
    summary = run_pipeline(configs, Context(force=force, device=device), flow_run)
    publish(summary)
    return summary


def run_pipeline(configs: PipelineConfigs, context: Context, flow_run: str | None = None) -> dict[str, Any]:
    """The stages, one after the other, under one MLflow run; the summary of the results.

    context   its parent is the MLflow run of the grid that this is a cell of, if it is one
    flow_run  id of the Prefect flow run that this is, if it is one
    """
    with pipeline_run(vars(configs), context.device, flow_run, context.parent) as run_id:
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
    """New probabilities from a trained model, for new labels or a new base rate; trains nothing.

    Everything else is done as it was for the run that is named.

    Args:
        model: run id that has the model or came from it, URI of a model or calibrator, or latest
        labels: file of newly labelled triples (subject, predicate, object, 1 or -1), which join the validation split
        instead: the labelled triples take the place of the validation split
        base_rate: share of positives the probabilities are to be about; none = as before
        refit: fit the calibrators anew without new labels, too; else the fitted ones are told about the base rate
        force: run every stage that is not taken over even where a finished run could be re-used
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
    """The stages from corrupt to report; all of them by name, the two that were given among them.

    fitted  calibrators to be told about the base rate, in the place of new ones
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
    """The Prefect flow run this is, if it is one."""
    run = current_flow_run()
    return run.id if run else None
