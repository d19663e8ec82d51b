"""The whole pipeline as a Prefect flow."""

from dataclasses import replace
from typing import Any

from prefect.context import FlowRunContext

from flows.deployment.flow import flow
from flows.deployment.parameters import Device, PresetOrNone
from flows.deployment.publish import publish
from kgcore.config import (
    CalibrateConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
)
from kgcore.config.presets import tuned
from kgcore.report.summary import PipelineSummary
from tasks.jobs.pipeline import finish_pipeline, pipeline_run
from tasks.stages.calibrate import CALIBRATE, move_calibrators, upstream_of
from tasks.stages.classify import CLASSIFY
from tasks.stages.corrupt import CORRUPT
from tasks.stages.evaluate import EVALUATE
from tasks.stages.prepare import PREPARE
from tasks.stages.rank import RANK
from tasks.stages.reference import Context, StageRef
from tasks.stages.report import REPORT
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN


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
    flow_run = flow_run_id()
    summary = run_pipeline(configs, Context(force=force, device=device), flow_run)
    publish(summary)
    return summary.to_json()


def run_pipeline(configs: PipelineConfigs, context: Context, flow_run: str | None = None) -> PipelineSummary:
    """The stages, one after the other, under one MLflow run; the summary of the results.

    context   its parent is the MLflow run of the grid that this is a cell of, if it is one
    flow_run  id of the Prefect flow run that this is, if it is one
    """
    with pipeline_run(configs, context.device, flow_run, context.parent) as run_id:
        context = replace(context, parent=run_id)
        data = PREPARE(config=configs.prepare, context=context)
        model = TRAIN(data, config=configs.train, context=context)
        return finish_pipeline(run_id, after_training(data, model, configs, context))


def after_training(
    data: StageRef, model: StageRef, configs: PipelineConfigs, context: Context, fitted: StageRef | None = None
) -> dict[str, StageRef]:
    """The stages from corrupt to report; the references of all stages by name, `data` and `model` among them.

    fitted  a calibrate run whose calibrators are moved to the base rate, instead of new ones
    """
    if fitted is None:
        corruptions = CORRUPT(data, model, config=configs.corrupt, context=context)
        scores = SCORE(model, corruptions, context=context)
        calibrators = CALIBRATE(scores, config=configs.calibrate, context=context)
    else:
        corruptions, scores = upstream_of(fitted)
        calibrators = move_calibrators(fitted, configs.calibrate.base_rate, context)
    predictions = CLASSIFY(calibrators, config=configs.classify, context=context)
    ranks = RANK(model, context=context)
    evaluation = EVALUATE(predictions, ranks, config=configs.evaluate, context=context)
    report = REPORT(evaluation, context=context)
    stages = (data, model, corruptions, scores, calibrators, predictions, ranks, evaluation, report)
    return {ref.stage: ref for ref in stages}


def flow_run_id() -> str | None:
    """The Prefect flow run this is, if it is one."""
    context = FlowRunContext.get()
    return str(context.flow_run.id) if context and context.flow_run else None
