"""The Prefect flow that calibrates a trained model again: it runs the stages after training."""

from pathlib import Path

from flows.flow import flow
from flows.job import Deployment, Instead, job, publish
from flows.parameters import Device, RunId
from flows.pipeline import after_training
from kgcore.base_rate import BaseRate
from kgcore.config import EXAM_SHARE
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.compare import check_dataset, dataset_name
from tasks.jobs.exam import add_field_labels
from tasks.jobs.manifest import newest_pipeline, resolve
from tasks.jobs.pipeline import finish_pipeline
from tasks.jobs.recalibrate import (
    at_rate_of_labels,
    calibrators_of,
    dataset_of,
    model_and_settings,
    note_candidates,
    note_champion,
    other_models_of,
    recalibration_run,
)
from tasks.stages.match import check_candidates
from tasks.stages.prepare import add_labels
from tasks.stages.running import Context
from tasks.stages.train import adopt_model
from tasks.tracking.record import LATEST
from tasks.tracking.store import open_store
from tasks.workspace.flow_run import current_flow_run

RUN = Instead("run", "RUN", "model", "run to recalibrate, instead of --model", "the run to recalibrate")


@job(deployments=(Deployment("recalibrate", alone=True),), instead=RUN, kind="care")
@flow(name="recalibrate", flow_run_name="recalibrate {model}")
def recalibrate(
    model: RunId = LATEST,
    dataset: str = "",
    labels: str = "",
    candidates: str = "",
    instead: bool = False,
    base_rate: float | str | None = None,
    refit: bool = False,
    exam_share: float = EXAM_SHARE,
    force: bool = False,
    device: Device = "auto",
) -> PipelineSummary:
    """Calibrate a trained model again, with new labels, to candidates, or for a new base rate.

    Nothing is trained. All other settings are those of the named run.

    Args:
        model: run id of a train run or of a run that came from it, URI of a model or calibrator, or latest (the newest
            finished pipeline)
        dataset: data set whose newest finished pipeline `latest` is; if empty, the newest of all. A named run must be
            of it
        labels: file of newly labelled triples: subject, predicate, object, label. They are added to the validation
            split, except those that belong to the exam
        candidates: file of the triples that you want probabilities for; or valid or test, a held-out split with its
            labels hidden. One more group of calibrators is then fitted to these triples
        instead: replace the validation split by these labelled triples, instead of adding them
        base_rate: stated base rate, or an interval LOW:HIGH of it, such as 0.01:0.05; if empty, the base rate of the
            named run, or if nobody has stated it, the share of true ones among the first labels of a graph
        refit: fit the calibrators again for a new base rate, instead of shifting their probabilities
        exam_share: share of the labels that belong to the exam of `kgcal promote`, also of the labels among candidates;
            0 = all labels are for calibration
        force: run every stage but training even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    stated = BaseRate.read(base_rate)
    if dataset and model == LATEST:
        model = newest_pipeline(open_store(), dataset_name(dataset)).run_id
    trained, configs = model_and_settings(model, stated, candidates, exam_share)
    check_dataset(dataset_of(trained), dataset, f"the run {model}")
    fitted = None if refit or labels or candidates or stated is None else calibrators_of(model)
    if fitted is None and not candidates:
        note_candidates(model)
    file, flow_run = Path(labels) if labels else None, current_flow_run()
    with recalibration_run(trained, configs, file, instead, device, flow_run.id if flow_run else None) as run_id:
        context = Context(parent=run_id, force=force, device=device)
        data = resolve("prepare", trained.run_id)
        if file is not None:
            data = add_labels(data, file, instead, exam_share, context)
            add_field_labels(data.run_id, file, exam_share)
            configs = at_rate_of_labels(configs, data, run_id)
        if candidates:
            check_candidates(data, configs.match)
        model_ref, others = adopt_model(trained, data, context), other_models_of(model)
        stages = after_training(data, model_ref, configs, context, fitted, others=others)
        summary = finish_pipeline(run_id, stages)
    note_champion(summary.dataset)
    return publish(summary)
