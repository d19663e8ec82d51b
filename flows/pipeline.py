"""The Prefect flow of the whole pipeline."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from flows.flow import flow, resolved_name
from flows.job import Deployment, Option, job, publish
from flows.parameters import THREADS, Device, Members, PresetOrNone, Runner
from kgcore.config import (
    CalibrateConfig,
    ChooseConfig,
    ClassifyConfig,
    CorruptConfig,
    EnsembleConfig,
    EvaluateConfig,
    EvidenceConfig,
    MatchConfig,
    PipelineConfigs,
    PrepareConfig,
    RankConfig,
    TrainConfig,
    presets,
)
from kgcore.config.base import MODEL_ONLY
from kgcore.config.race import RaceConfig
from kgcore.errors import InputError
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.ensemble import ensemble_models, ensemble_summary
from tasks.jobs.manifest import is_run, resolve
from tasks.jobs.pipeline import finish_pipeline, note_choice, pipeline_run
from tasks.stages.calibrate import CALIBRATE, check_completeness, move_calibrators, settle, upstream_of
from tasks.stages.choose import CHOOSE, best_settings, chosen_settings
from tasks.stages.classify import CLASSIFY
from tasks.stages.corrupt import CORRUPT
from tasks.stages.evaluate import EVALUATE
from tasks.stages.evidence import EVIDENCE_STAGE, check_others, wants_evidence
from tasks.stages.match import MATCH, check_candidates
from tasks.stages.prepare import PREPARE
from tasks.stages.rank import RANK
from tasks.stages.report import REPORT
from tasks.stages.running import Context, StageRef
from tasks.stages.score import SCORE
from tasks.stages.train import TRAIN
from tasks.workspace.flow_run import FlowRun, current_flow_run

log = logging.getLogger("kgcal")
NIGHTLY = "Run the pipeline at the times of `kgcal schedule`; stages whose inputs have not changed are re-used."
DEPLOYMENTS = (Deployment("pipeline"), Deployment("nightly", NIGHTLY, alone=True))
Other = TrainConfig | StageRef  # a further model to train, or one that was trained
FEWEST = 2  # models of an ensemble


@job(("run",), DEPLOYMENTS, shown={"ensemble": Option("N"), "other_models": Option("MODEL|RUN,...")}, kind="pipeline")
@flow(name="pipeline", flow_run_name=resolved_name())
def pipeline(
    preset: PresetOrNone = None,
    prepare: PrepareConfig = PrepareConfig(),
    calibrate: CalibrateConfig = CalibrateConfig(),
    match: MatchConfig = MatchConfig(),
    train: TrainConfig = TrainConfig(),
    corrupt: CorruptConfig = CorruptConfig(),
    evidence: EvidenceConfig = EvidenceConfig(),
    choose: ChooseConfig = ChooseConfig(),
    classify: ClassifyConfig = ClassifyConfig(),
    evaluate: EvaluateConfig = EvaluateConfig(),
    rank: RankConfig = RankConfig(),
    other_models: str = "",
    ensemble: Members = 0,
    force: bool = False,
    device: Device = "auto",
    runner: Runner = THREADS,
) -> PipelineSummary:
    """Turn a data set into calibrated probabilities and a report.

    Args:
        preset: fills in the settings of train, corrupt and calibrate that you leave out. auto: a race on validation
            chooses them for this graph; default: good and fast; best: better proper scores, slower; paper: the protocol
            of the paper; none: no preset. If empty: default for data sets whose settings are known, auto for any other
            graph
        prepare: the graph
        calibrate: how to turn scores into probabilities
        match: the candidates to calibrate to; without candidates, their mistakes are not known
        train: the embedding model and its training
        corrupt: the corruptions that serve as negatives in synthetic calibration
        evidence: what calibrators see of a triple beside its score
        choose: the race of the preset auto
        classify: how to turn probabilities into decisions
        evaluate: how to measure calibration
        rank: which test facts to rank
        other_models: further models whose scores are evidence, too: names of models, which are trained with the
            settings that the preset has for them, or runs with trained models of the same graph; with commas
        ensemble: with the preset auto, also train the others of the best N contenders of the race to their end, and
            pool these N calibrated models; 0 = no ensemble
        force: run every stage even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
        runner: where a training in partitions runs: threads, dask, or dask://HOST:PORT
    """
    given = PipelineConfigs(prepare, train, corrupt, calibrate, classify, evaluate, match, choose, evidence, rank)
    resolved = presets.resolve(preset, given)
    others = _read_other_models(other_models, resolved, given)
    context = Context(force=force, device=device, runner=runner)
    if ensemble:
        _check_number(ensemble, resolved.configs)
    summary = run_pipeline(resolved.configs, context, current_flow_run(), resolved.parameters, others)
    if ensemble:
        summary = replace(summary, ensemble=_ensemble_of_best(ensemble, summary, resolved.configs, context))
    return publish(summary)


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
        _check_other_models(others, data, configs)
        choice = None
        if isinstance(configs.choose, RaceConfig):
            choice = CHOOSE(data, config=configs.choose, context=context)
            configs = replace(configs, train=chosen_settings(choice))
            note_choice(run_id, configs.train)
        model = TRAIN(data, config=configs.train, context=context)
        beside = _trained_others(others, configs.train, data, context)
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
            seen = EVIDENCE_STAGE(model, scores, matched, config=configs.evidence, context=context, further=others)
        elif others:
            log.warning("there are too few labels or candidates for evidence: the further models are not used")
        calibrators = CALIBRATE(scores, matched, seen, config=configs.calibrate, context=context)
        made = [ref for ref in (matched, corruptions, scores, seen) if ref]
    else:
        made = list(upstream_of(fitted).values())
        calibrators = move_calibrators(fitted, configs.calibrate, context)
    predictions = CLASSIFY(calibrators, config=configs.classify, context=context)
    ranks = RANK(model, config=configs.rank, context=context)
    evaluation = EVALUATE(predictions, ranks, config=configs.evaluate, context=context)
    report = REPORT(evaluation, choice, context=context)
    stages = (data, *([choice] if choice else []), model, *made, calibrators, predictions, ranks, evaluation, report)
    return {ref.stage: ref for ref in stages}


def _read_other_models(text: str, resolved: presets.Resolved, given: PipelineConfigs) -> tuple[Other, ...]:
    """Return the further models that a user names.

    text      names of models, and runs as in `resolve`, with commas; empty: none
    resolved  the settings of the pipeline. A model that is named has those of the preset, or of `default` if a race
              chooses the settings of the pipeline's model
    given     the given settings of the pipeline. The further models take over its training seed, and no other setting
              of training

    Raises InputError for an unknown model or run, if the preset has no settings for a model, and for a model with the
    settings of the pipeline's model.
    """
    races = resolved.preset == presets.AUTO
    found: list[Other] = []
    for name in (part.strip() for part in text.split(",") if part.strip()):
        if is_run(name):
            found.append(resolve("train", name))
            continue
        try:
            own = TrainConfig(model=name, **{key: value for key, value in given.train.given().items() if key == "seed"})
        except InputError as error:
            raise InputError(f"other_models has {name!r}, which is no run and no model: {error}") from error
        others = replace(given, train=own, choose=ChooseConfig())
        settings = presets.resolve("default" if races else resolved.preset, others, races=False).configs.train
        if settings == resolved.configs.train and not races:
            raise InputError(f"other_models has {name}, which is the model itself: name another model")
        found.append(settings)
    return tuple(found)


def _check_other_models(others: Sequence[Other], data: StageRef, configs: PipelineConfigs) -> None:
    """Raise InputError if further models would not be used, MismatchError if one has other training triples."""
    if others and not configs.match.candidates and not wants_evidence(data, configs.calibrate, None):
        raise InputError(
            "--other-models needs a calibrator that sees evidence: name boosted_trees among the calibrators, and use "
            "data with at least 1,000 true validation triples, or --candidates FILE"
        )
    check_others(data, [other for other in others if isinstance(other, StageRef)])


def _trained_others(others: Sequence[Other], chosen: TrainConfig, data: StageRef, context: Context) -> list[StageRef]:
    """Train the further models that are not trained yet, on the graph of a prepare run. Return their train runs.

    chosen  settings of the pipeline's model. If a race has chosen those of a further model, that one is left out
    """
    if chosen in others:
        log.warning("the race chose the settings of the further model %s: it is no evidence", chosen.model)
    wanted = [other for other in others if other != chosen]
    return [other if isinstance(other, StageRef) else TRAIN(data, config=other, context=context) for other in wanted]


def _check_number(number: int, configs: PipelineConfigs) -> None:
    """Raise InputError if the best contenders of this pipeline cannot form an ensemble of `number` models."""
    if number < FEWEST:
        raise InputError(f"--ensemble is {number}: an ensemble has at least {FEWEST} models")
    if not isinstance(configs.choose, RaceConfig):
        raise InputError(
            "--ensemble pools the best contenders of a race, and this pipeline has no race: add --preset auto, or pool "
            "the runs that you name with kgcal ensemble"
        )
    if configs.match.candidates:
        raise InputError(
            "--ensemble and --candidates cannot be used together: each model would have its own mixture of corruptions"
        )
    if found := sorted(MODEL_ONLY.intersection(configs.corrupt.calibration_strategy)):
        raise InputError(
            f"--ensemble cannot be used with the strategy {found[0]}: it draws other corruptions for each model, and "
            "the members of an ensemble must have the same"
        )


def _ensemble_of_best(
    number: int, summary: PipelineSummary, configs: PipelineConfigs, context: Context
) -> EnsembleSummary:
    """Train and calibrate the best contenders of a finished pipeline's race, and pool them. Return the results.

    number   number of models, if the race has so many contenders that have not failed. The first one is the model of
             the pipeline
    configs  the settings of the pipeline. The first of its calibrators calibrates the members, and the ensemble

    Raises InputError if the race has only one such contender.
    """
    context = replace(context, parent=summary.pipeline)
    data = StageRef("prepare", summary.runs["prepare"])
    members = [StageRef("calibrate", summary.runs["calibrate"])]
    for settings in best_settings(StageRef("choose", summary.runs["choose"]), number)[1:]:
        model = TRAIN(data, config=settings, context=context)
        corruptions = CORRUPT(data, model, config=configs.corrupt, context=context)
        scores = SCORE(model, corruptions, context=context)
        members.append(CALIBRATE(scores, None, config=configs.calibrate, context=context))
    first = configs.calibrate.calibrators[0]
    pooling = EnsembleConfig(member_calibrator=first, recalibrator=first)
    return ensemble_summary(ensemble_models(members, pooling, context))
