"""calibrate: fit the calibrators that turn scores into probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kgcore.calibration.answering import in_order
from kgcore.calibration.audit import score_audit
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.fit import CANDIDATES, GROUND_TRUTH, Candidates, calibration_samples, fit_calibrators
from kgcore.calibration.matched import candidate_sample
from kgcore.calibration.sample import CalibrationSample
from kgcore.calibration.thin import Thinness
from kgcore.config import CalibrateConfig, CorruptConfig, MatchConfig, TrainConfig
from kgcore.registries import ALL_CALIBRATORS
from kgcore.score_table import LABELLED, ScoreTable
from tasks.stages.base import Stage
from tasks.stages.combine import combine
from tasks.stages.evidence import EVIDENCE_STAGE, other_models
from tasks.stages.match import MATCH
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import IMPORTED, StageRun, config_of, loss_of, run_stage
from tasks.stages.score import SCORE
from tasks.stages.task import as_task
from tasks.tracking.artifacts import (
    ABLATION,
    CALIBRATION_AUDIT,
    CALIBRATOR,
    COMBINED_MIXTURE,
    ENTITIES,
    HELD_OUT_LOG_ODDS,
    MATCHED,
    MIXTURE,
    PREDICATES,
    SCORES,
    UNSEEN_ANSWERS,
)
from tasks.tracking.handles import Artifact
from tasks.tracking.labels import shares_text, short_label
from tasks.tracking.mlmodel import EXAMPLES, log_pyfunc
from tasks.tracking.record import RunRecord, RunTags
from tasks.tracking.store import open_store

T = TypeVar("T")


_COMBINE = ("kgcore.calibration.answering", "kgcore.calibration.combine", "kgcore.combiners.ablation")


def _code(config: CalibrateConfig) -> tuple[str, ...]:
    return (
        "kgcore.calibration.fit",
        "kgcore.calibration.audit",
        "kgcore.calibration.thin",
        *(_COMBINE if config.combiners else ()),
        *map(ALL_CALIBRATORS.module, config.calibrators),
    )


def _body(run: StageRun, config: CalibrateConfig) -> None:
    """Fit the calibrators, log each of them as a separate LoggedModel, and log an audit of the scores."""
    table, candidates = run.load(SCORES), _candidates(run)
    examples, fitted = _examples(run, table), fit_calibrators(table, config, run.config(CorruptConfig), candidates)
    samples = _samples(table, config, candidates)
    combined, figures = combine(run, table, config, samples, candidates, fitted)
    fitted = _with_unseen(run, in_order([*fitted, *combined], figures))
    for number, bound in enumerate(fitted):
        log_calibrator(run, number, bound, examples)
    soft = table.soft("valid")
    audits = {name: score_audit(sample, soft and name == GROUND_TRUTH).to_json() for name, sample in samples.items()}
    for kind, own in figures.items():
        audits[kind] |= own
    audits["synthetic"] |= table.search_figures()
    rows = ((short_label(f"{name}.{row[0]}"), row[1]) for name, figures in audits.items() for row in figures.items())
    run.log_metrics(dict(rows))
    _save_audit(run, audits, fitted, samples)
    run.tag(RunTags(base_rate=config.base_rate_text))


def _with_unseen(run: StageRun, fitted: Sequence[BoundCalibrator]) -> list[BoundCalibrator]:
    """Give the answers about unseen entities to the calibrators that were fitted to labelled triples, as these were."""
    if not run.has(UNSEEN_ANSWERS):
        return list(fitted)
    unseen = run.load(UNSEEN_ANSWERS)
    given = []
    for bound in fitted:
        if bound.negatives == GROUND_TRUTH:
            unseen.check(bound.base_model, bound.dataset)
            own = replace(unseen, base_rate=bound.base_rate) if unseen.base_rate is None else unseen
            bound = replace(bound, unseen=own)
        given.append(bound)
    return given


def _save_audit(
    run: StageRun,
    audits: dict[str, dict[str, float]],
    fitted: Sequence[BoundCalibrator],
    samples: Mapping[str, CalibrationSample],
) -> None:
    """Save the audits of the samples, with the support of each calibrator's high probabilities."""
    every = {name: dict(figures) for name, figures in audits.items()}
    for bound in fitted:
        if bound.support is not None and bound.combined is None:
            every[bound.negatives] |= Thinness.of(bound, samples[bound.negatives]).figures(bound.name)
    run.save(CALIBRATION_AUDIT, every)


def _samples(table: ScoreTable, config: CalibrateConfig, candidates: Candidates | None) -> dict[str, CalibrationSample]:
    """Return the calibration samples by kind of negatives."""
    samples = calibration_samples(table, config)
    return samples | ({CANDIDATES: candidate_sample(candidates.data, candidates.matched)} if candidates else {})


def _candidates(run: StageRun) -> Candidates | None:
    """Return the candidates that the calibrators are fitted to; None if the run has no match run upstream."""
    if MATCH.name not in run.inputs:
        return None
    config = run.config(MatchConfig)
    return Candidates(run.load(MIXTURE), run.load(MATCHED), config.match_replicates, config.match_seed)


def settle(config: CalibrateConfig, upstream: Sequence[StageRef]) -> CalibrateConfig:
    """Return the settings with the base rate of the candidates, if there is a match run among the upstream runs.

    Raises InputError and MismatchError as `Matched.settle` does.
    """
    matched = [ref for ref in upstream if ref.stage == MATCH.name]
    return open_store().load(matched[0].run_id, MATCHED).settle(config) if matched else config


CALIBRATE = Stage(
    name="calibrate",
    summary="Fit calibrators on the scores of a score run.",
    title="calibrate {scores} to {config.alpha}",
    config=CalibrateConfig,
    body=_body,
    code=_code,
    inputs={"scores": SCORE, "candidates": MATCH, "evidence": EVIDENCE_STAGE},
    optional=("candidates", "evidence"),
    settle=settle,
)


def upstream_of(calibrators: StageRef) -> Mapping[str, StageRef]:
    """Return the corrupt and score runs and, if they exist, the match and evidence runs of a calibrate run, by stage.

    Raises InputError if the calibrate run does not exist or is not finished.
    """
    inputs = open_store().finished(calibrators.stage, calibrators.run_id).tags.inputs
    return {
        name: StageRef(name, inputs[name]) for name in (MATCH.name, "corrupt", "score", "evidence") if name in inputs
    }


@as_task("move_calibrators")
def move_calibrators(calibrators: StageRef, to: CalibrateConfig, context: Context = Context()) -> StageRef:
    """Shift the calibrators of a calibrate run to another base rate without fitting them again.

    Return a new calibrate run.

    to  settings with the new base rate: the share of positives, in (0, 1), that the new probabilities assume

    Raises InputError if the calibrate run does not exist or is not finished.
    """
    store = open_store()
    before = store.finished(calibrators.stage, calibrators.run_id)
    config = config_of(CalibrateConfig, before).at(to.alpha, to.limits)
    upstream = upstream_of(calibrators)
    inputs = [upstream[name] for name in ("score", MATCH.name, EVIDENCE_STAGE.name) if name in upstream]

    def body(run: StageRun) -> None:
        table = run.load(SCORES)
        examples = _examples(run, table)
        fitted = [store.load_model(model_id, CALIBRATOR) for model_id in before.model_ids]
        moved = [bound.at(config.alpha, config.limits) for bound in fitted]
        for number, bound in enumerate(moved):
            log_calibrator(run, number, bound, examples)
        samples = _samples(table, config_of(CalibrateConfig, before), _candidates(run))
        _save_audit(run, store.load(before.run_id, CALIBRATION_AUDIT), moved, samples)
        _copy(run, before, HELD_OUT_LOG_ODDS)
        _copy(run, before, COMBINED_MIXTURE)
        _copy(run, before, ABLATION)
        run.tag(RunTags(moved=before.run_id, base_rate=config.base_rate_text))

    identity = f"moved {before.tags.key}"
    return run_stage("calibrate", config, inputs, ("kgcore.calibration.bound",), body, context, identity)


def _copy(run: StageRun, before: RunRecord, artifact: Artifact[T]) -> None:
    """Save an artifact of an earlier calibrate run again, if it has this artifact."""
    if artifact.path in (before.tags.artifacts or {}):
        run.save(artifact, run.store.load(before.run_id, artifact))


def _examples(run: StageRun, table: ScoreTable) -> list[list[str]]:
    """Return the names of the first validation positives, which show how to ask a calibrator."""
    triples = table.triples[table.rows("valid", LABELLED, 1)][:EXAMPLES].tolist()
    entities, predicates = run.load(ENTITIES), run.load(PREDICATES)
    return [[entities[s], predicates[p], entities[o]] for s, p, o in triples]


def log_calibrator(run: StageRun, number: int, bound: BoundCalibrator, examples: Sequence[Sequence[str]]) -> None:
    """Log a calibrator as a LoggedModel, with its label and the id of its embedding model as tags.

    number    position among the models of the run, from 0
    examples  triples of names that show how to ask it

    The LoggedModel is an MLflow pyfunc.
    """
    params, [base] = calibrator_params(run, bound), run.model_ids("train")
    name = f"{params['dataset']}-{params['model']}-{bound.label}"
    tags = {"label": bound.label, "base_model": base, "base_rate_is": bound.base_rate_is}
    model_id = run.log_model(CALIBRATOR, bound, name, params, number, **tags)
    log_pyfunc(run.store, model_id, bound.base_rate, examples)


def calibrator_params(run: StageRun, bound: BoundCalibrator) -> dict[str, object]:
    """Return the parameters by which users compare calibrators in the MLflow UI."""
    train, loss = run.config(TrainConfig), loss_of(run.store.get(run.inputs["train"]))
    params = {
        "calibrator": bound.shown_name,
        "negatives": bound.negatives,
        "base_rate": bound.base_rate,
        "model": train.model,
        "loss": loss,
        "dataset": run.dataset.name,
        "k": train.k,
        "training_strategy": "" if loss == IMPORTED else shares_text(train.training_strategy),
    }
    params |= {} if bound.mixture is None else {"candidates": bound.mixture.source}
    if bound.combined and (named := other_models(run.inputs)):
        others = [run.store.get(run_id) for run_id in named]
        params["other_models"] = " ".join(config_of(TrainConfig, other).model for other in others)
    return params | corruption_params(run) if bound.negatives == "synthetic" else params


def corruption_params(run: StageRun) -> dict[str, object]:
    """Return the parameters that describe how the corruptions for calibration were drawn."""
    drawn = run.config(CorruptConfig)
    return {
        "calibration_strategy": shares_text(drawn.calibration_strategy),
        "calibration_sides": drawn.calibration_sides,
        "calibration_filtered": drawn.calibration_filtered,
    }
