"""The Prefect flow that audits the training facts by models that have not seen them."""

from flows.deployment.flow import flow
from flows.deployment.names import resolved_name
from flows.deployment.parameters import Device, PresetOrNone
from flows.deployment.publish import publish_audit
from kgcore.config import (
    AuditConfig,
    CalibrateGiven,
    CorruptGiven,
    PipelineConfigs,
    PipelineGiven,
    PrepareGiven,
    TrainGiven,
    presets,
)
from tasks.jobs.audit import CALIBRATOR, AuditRequest, audit_facts, audit_run, labelled_share
from tasks.jobs.audit_result import AuditResult
from tasks.stages.calibrate import CALIBRATE
from tasks.stages.corrupt import CORRUPT
from tasks.stages.prepare import PREPARE, leave_out
from tasks.stages.reference import Context, StageRef
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN


@flow(name="audit", flow_run_name=resolved_name("audit"))
def audit(
    output: str = "",
    labels: str = "",
    error_rate: float | None = None,
    calibrator: str = "",
    prepare: PrepareGiven = PrepareGiven(),
    train: TrainGiven = TrainGiven(),
    corrupt: CorruptGiven = CorruptGiven(),
    calibrate: CalibrateGiven = CalibrateGiven(),
    config: AuditConfig = AuditConfig(),
    preset: PresetOrNone = "default",
    force: bool = False,
    device: Device = "auto",
) -> AuditResult:
    """List the training facts that are probably wrong, or draw facts to label.

    The training facts are divided into folds. For each fold, a model is trained on the other folds and calibrated on
    the validation split; it scores the facts of the fold, which it has not seen. A model that has seen a wrong fact
    learns it and gives it a high score. A finished fold is re-used, so a stopped audit can be started again.

    Args:
        output: file for the list of facts, or with --sample for the facts to label (.parquet, .csv or .tsv)
        labels: file of --sample with labels (1 or -1), from which the share of wrong facts is estimated
        error_rate: stated share of wrong facts; if empty, the share that the labels show or, without labels, the one
            that the probabilities suggest
        calibrator: label of a calibrator, such as synthetic.per_relation; if empty, the first of --calibrators, fitted
            on labelled negatives if there are any
        prepare: the graph
        train: the embedding models and their training
        corrupt: the corruptions that serve as negatives in synthetic calibration
        calibrate: how to turn scores into probabilities; without --calibrators, it is per_relation
        config: the folds and the sample
        preset: fills in the settings of train and corrupt that you leave out: default, best, paper or none
        force: run every stage even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    usual = CalibrateGiven(**{"calibrators": (CALIBRATOR,), **calibrate.given()})
    resolved = presets.resolve(preset, PipelineGiven(prepare, train, corrupt, usual))
    request = AuditRequest(output, labels, error_rate, calibrator, device, config)
    with audit_run(request, resolved.configs, resolved.parameters) as run_id:
        context = Context(parent=run_id, force=force, device=device)
        data = PREPARE(config=resolved.configs.prepare, context=context)
        labelled = labelled_share(data, request)
        folds = [calibrated_fold(data, n, resolved.configs, config, context) for n in range(request.folds)]
        found = audit_facts(data, folds, labelled, request, run_id)
    publish_audit(found)
    return found


def calibrated_fold(
    data: StageRef, number: int, configs: PipelineConfigs, config: AuditConfig, context: Context
) -> StageRef:
    """Train and calibrate the model of a fold, on the facts outside the fold. Return its calibrate run.

    number  the fold, from 0
    """
    rest = leave_out(data, number, config, context)
    model = TRAIN(rest, config=configs.train, context=context)
    corruptions = CORRUPT(rest, model, config=configs.corrupt, context=context)
    scores = SCORE(model, corruptions, context=context)
    return CALIBRATE(scores, config=configs.calibrate, context=context)
