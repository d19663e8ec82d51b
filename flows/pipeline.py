"""The Prefect flow of the whole pipeline."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flows.best_few import check_number, ensemble_of_best
from flows.deployment.names import resolved_name
from flows.deployment.parameters import Device, Members, PresetOrNone
from flows.deployment.publish import publish, publish_ensemble
from flows.flow import flow
from flows.other_models import Other, check_other_models, read_other_models, trained_others
from kgcore.config import (
    CalibrateConfig,
    ChooseConfig,
    ClassifyConfig,
    CorruptConfig,
    EvaluateConfig,
    EvidenceConfig,
    MatchConfig,
    PipelineConfigs,
    PrepareConfig,
    TrainConfig,
    presets,
)
from kgcore.config.race import RaceConfig
from kgcore.report.summary import PipelineSummary
from tasks.jobs.pipeline import finish_pipeline, note_choice, pipeline_run
from tasks.stages.calibrate import CALIBRATE, check_completeness, move_calibrators, settle, upstream_of
from tasks.stages.choose import CHOOSE, chosen_settings
from tasks.stages.classify import CLASSIFY
from tasks.stages.corrupt import CORRUPT
from tasks.stages.evaluate import EVALUATE
from tasks.stages.evidence import EVIDENCE_STAGE, wants_evidence
from tasks.stages.match import MATCH, check_candidates
from tasks.stages.prepare import PREPARE
from tasks.stages.rank import RANK
from tasks.stages.reference import Context, StageRef
from tasks.stages.report import REPORT
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN
from tasks.workspace.flow_run import FlowRun, current_flow_run

log = logging.getLogger("kgcal")


@flow(name="pipeline", flow_run_name=resolved_name())
def pipeline(
    prepare: PrepareConfig = PrepareConfig(),
    train: TrainConfig = TrainConfig(),
    corrupt: CorruptConfig = CorruptConfig(),
    calibrate: CalibrateConfig = CalibrateConfig(),
    classify: ClassifyConfig = ClassifyConfig(),
    evaluate: EvaluateConfig = EvaluateConfig(),
    match: MatchConfig = MatchConfig(),
    choose: ChooseConfig = ChooseConfig(),
    evidence: EvidenceConfig = EvidenceConfig(),
    preset: PresetOrNone = None,
    other_models: str = "",
    ensemble: Members = 0,
    force: bool = False,
    device: Device = "auto",
) -> PipelineSummary:
    """Turn a data set into calibrated probabilities and a report.

    Args:
        prepare: the graph
        train: the embedding model and its training
        corrupt: the corruptions that serve as negatives in synthetic calibration
        calibrate: how to turn scores into probabilities
        classify: how to turn probabilities into decisions
        evaluate: how to measure calibration
        match: the candidates to calibrate to; without candidates, their mistakes are not known
        choose: the race of the preset auto
        evidence: what calibrators see of a triple beside its score
        preset: fills in the settings of train, corrupt and calibrate that you leave out. auto: a race on validation
            chooses them for this graph; default: good and fast; best: better proper scores, slower; paper: the protocol
            of the paper; none: no preset. If empty: default for data sets whose settings are known, auto for any other
            graph
        other_models: further models whose scores are evidence, too: names of models, which are trained with the
            settings that the preset has for them, or runs with trained models of the same graph; with commas
        ensemble: with the preset auto, also train the others of the best N contenders of the race to their end, and
            pool these N calibrated models; 0 = no ensemble
        force: run every stage even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    given = PipelineConfigs(prepare, train, corrupt, calibrate, classify, evaluate, match, choose, evidence)
    resolved = presets.resolve(preset, given)
    others = read_other_models(other_models, resolved, given)
    context = Context(force=force, device=device)
    if ensemble:
        check_number(ensemble, resolved.configs)
    summary = run_pipeline(resolved.configs, context, current_flow_run(), resolved.parameters, others)
    publish(summary)
    if ensemble:
        pooled = ensemble_of_best(ensemble, summary, resolved.configs, context)
        publish_ensemble(pooled)
        summary = replace(summary, ensemble=pooled)
    return summary


def run_pipeline(
    configs: PipelineConfigs,
    context: Context,
    flow_run: FlowRun | None = None,
    preset: Mapping[str, str] | None = None,
    others: Sequence[Other] = (),
) -> PipelineSummary:
    """Run the stages in their order under one MLflow run; return the summary of the results.

    context   its `parent` is the MLflow run of the reproduction, if the reproduction runs this pipeline
    flow_run  the Prefect flow run, if there is one
    preset    MLflow parameters that say which preset was used: see `Resolved.parameters`
    others    further models whose scores are evidence
    """
    names = [str(other) if isinstance(other, StageRef) else other.model for other in others]
    preset = dict(preset or {}) | ({"other_models": ",".join(names)} if names else {})
    with pipeline_run(configs, context.device, flow_run.id if flow_run else None, context.parent, preset) as run_id:
        context = replace(context, parent=run_id)
        data = PREPARE(config=configs.prepare, context=context)
        if configs.match.candidates:
            check_candidates(data, configs.match)
        if configs.calibrate.has_shares:
            check_completeness(data, configs.calibrate)
        check_other_models(others, data, configs)
        choice = None
        if isinstance(configs.choose, RaceConfig):
            choice = CHOOSE(data, config=configs.choose, context=context)
            configs = replace(configs, train=chosen_settings(choice))
            note_choice(run_id, configs.train)
        model = TRAIN(data, config=configs.train, context=context)
        beside = trained_others(others, configs.train, data, context)
        return finish_pipeline(run_id, after_training(data, model, configs, context, choice=choice, others=beside))


def after_training(
    data: StageRef,
    model: StageRef,
    configs: PipelineConfigs,
    context: Context,
    fitted: StageRef | None = None,
    choice: StageRef | None = None,
    others: Sequence[StageRef] = (),
) -> dict[str, StageRef]:
    """Run the stages from corrupt to report. Return the references of all stages by name, also of the earlier ones.

    fitted  calibrators to shift to the new base rate; None = fit new calibrators
    choice  the choose run whose race the report shows; None: there was no race
    others  train runs of further models whose scores are evidence
    """
    if fitted is None:
        matched = MATCH(data, model, config=configs.match, context=context) if configs.match.candidates else None
        if matched:  # the corruptions are drawn for the base rate of the candidates
            configs = replace(configs, calibrate=settle(configs.calibrate, [matched])).at_base_rate()
        corruptions = CORRUPT(data, model, config=configs.corrupt, context=context)
        scores = SCORE(model, corruptions, context=context)
        seen = None
        if wants_evidence(data, configs.calibrate, matched):
            seen = EVIDENCE_STAGE(model, scores, matched, config=configs.evidence, context=context, several=others)
        elif others:
            log.warning("there are too few labels or candidates for evidence: the further models are not used")
        calibrators = CALIBRATE(scores, matched, seen, config=configs.calibrate, context=context)
        made = [ref for ref in (matched, corruptions, scores, seen) if ref]
    else:
        made = list(upstream_of(fitted).values())
        calibrators = move_calibrators(fitted, configs.calibrate, context)
    predictions = CLASSIFY(calibrators, config=configs.classify, context=context)
    ranks = RANK(model, context=context)
    evaluation = EVALUATE(predictions, ranks, config=configs.evaluate, context=context)
    report = REPORT(evaluation, choice, context=context)
    stages = (data, *([choice] if choice else []), model, *made, calibrators, predictions, ranks, evaluation, report)
    return {ref.stage: ref for ref in stages}
