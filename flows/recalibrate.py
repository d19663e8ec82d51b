"""Recalibration as a Prefect flow: everything that follows a training, from a trained model."""

from pathlib import Path

from flows.deployment.flow import flow
from flows.deployment.parameters import Device, RunId
from flows.deployment.publish import publish
from flows.pipeline import after_training
from kgcore.report.summary import PipelineSummary
from tasks.jobs.manifest import LATEST, resolve
from tasks.jobs.pipeline import finish_pipeline
from tasks.jobs.recalibrate import earlier, recalibration_run
from tasks.stages.prepare import add_labels
from tasks.stages.reference import Context
from tasks.stages.train import adopt_model
from tasks.workspace.flow_run import current_flow_run


@flow(name="recalibrate", flow_run_name="recalibrate {model}")
def recalibrate(
    model: RunId = LATEST,
    labels: str = "",
    instead: bool = False,
    base_rate: float | None = None,
    refit: bool = False,
    force: bool = False,
    device: Device = "auto",
) -> PipelineSummary:
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
    file, flow_run = Path(labels) if labels else None, current_flow_run()
    with recalibration_run(trained, configs, file, instead, device, flow_run.id if flow_run else None) as run_id:
        context = Context(parent=run_id, force=force, device=device)
        data = resolve("prepare", trained.run_id)
        if file is not None:
            data = add_labels(data, file, instead, context)
        stages = after_training(data, adopt_model(trained, data, context), configs, context, fitted)
        summary = finish_pipeline(run_id, stages)
    publish(summary)
    return summary
