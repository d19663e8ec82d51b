"""The Prefect flow that audits the training facts, with planted errors and models that have not seen every fact."""

from flows.flow import flow, resolved_name
from flows.job import job, publish
from flows.parameters import Device, PresetWithoutRace
from kgcore.config import (
    AuditConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    presets,
)
from kgcore.measure.report.result import Result
from tasks.jobs.audit import AuditRequest, audit_facts, audit_run, labelled_share
from tasks.stages.prepare import PREPARE, leave_out
from tasks.stages.running import Context
from tasks.stages.train import TRAIN


@job(kind="question")
@flow(name="audit", flow_run_name=resolved_name("audit"))
def audit(
    output: str = "",
    labels: str = "",
    error_rate: float | None = None,
    prepare: PrepareConfig = PrepareConfig(),
    train: TrainConfig = TrainConfig(),
    config: AuditConfig = AuditConfig(),
    preset: PresetWithoutRace = None,
    force: bool = False,
    device: Device = "auto",
) -> Result:
    """List the training facts that are probably wrong, or draw facts to label.

    The training facts are divided into folds, and planted errors are added to them. For each fold, a model is trained
    on the other folds. From the planted errors, the audit learns how errors are scored by models that have seen them
    and by a model that has not. A finished fold is re-used, so a stopped audit can be started again.

    Args:
        output: file for the list of facts, or with --sample for the facts to label (.parquet, .csv or .tsv)
        labels: file of --sample with labels (1 or -1), from which the share of wrong facts is estimated
        error_rate: stated share of wrong facts; if empty, the share that the labels show or, without labels, the share
            of facts that look like planted errors
        prepare: the graph
        train: the embedding models and their training
        config: the folds, the planted errors and the sample
        preset: fills in the settings of train that you leave out: default, best, paper or none. If empty: default
        force: run every stage even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    resolved = presets.resolve(preset, PipelineConfigs(prepare, train), races=False)
    request = AuditRequest(output, labels, error_rate, device, config)
    with audit_run(request, resolved.configs, resolved.parameters) as run_id:
        context = Context(parent=run_id, force=force, device=device)
        data = PREPARE(config=resolved.configs.prepare, context=context)
        labelled = labelled_share(data, request)
        folds = [
            TRAIN(leave_out(data, number, config, context), config=resolved.configs.train, context=context)
            for number in range(request.folds)
        ]
        return publish(audit_facts(data, folds, labelled, request, run_id))
