"""calibrate: fit the calibrators that turn scores into probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kgcore.config import CalibrateConfig, CorruptConfig, MatchConfig, PrepareConfig, TrainConfig
from kgcore.data.completeness import completeness_lines, read_completeness
from kgcore.registries import ALL_CALIBRATORS
from kgcore.scores.table import LABELLED, ScoreTable
from tasks.stages.evidence import EVIDENCE_STAGE, other_models
from tasks.stages.match import MATCH
from tasks.stages.running import IMPORTED, Context, Stage, StageRef, StageRun, as_task, config_of, loss_of, run_stage
from tasks.stages.score import SCORE
from tasks.tracking.artifacts import (
    ABLATION,
    CALIBRATION_AUDIT,
    CALIBRATOR,
    CANDIDATE_EVIDENCE,
    COMBINED_MIXTURE,
    COMPLETENESS,
    CORRUPTIONS,
    ENTITIES,
    EVIDENCE,
    GRAPH,
    HELD_OUT_LOG_ODDS,
    MATCHED,
    MIXTURE,
    MIXTURE_TRIPLES,
    PREDICATES,
    SCORES,
    TWIN_EVIDENCE,
    TWINS,
    UNSEEN_ANSWERS,
    Artifact,
)
from tasks.tracking.mlmodel import EXAMPLES, log_pyfunc
from tasks.tracking.record import RunRecord, RunTags, shares_text, short_label
from tasks.tracking.store import open_store

if TYPE_CHECKING:
    from kgcore.calibrate.calibrated import Calibrated
    from kgcore.calibrate.fit import Basis
    from kgcore.combiners.fit import Material
    from kgcore.mixture.calibrate import MatchedCandidates

T = TypeVar("T")


def _code(config: CalibrateConfig) -> tuple[str, ...]:
    return ("kgcore.combiners.fit", "kgcore.calibrate.fit", *map(ALL_CALIBRATORS.module, config.calibrators))


def _body(run: StageRun, config: CalibrateConfig) -> None:
    """Fit the calibrators, log each of them as a separate LoggedModel, and log an audit of the scores."""
    from kgcore.calibrate.fit import calibration_bases, fit_calibrators
    from kgcore.combiners.fit import fit_evidence, samples_of, with_thin

    table = scores_of(run.inputs, config.completeness)
    bases = calibration_bases(table, config, run.config(CorruptConfig))
    material = _material(run, table, config, bases)
    result = fit_evidence(material, fit_calibrators(table, config, bases))
    _log_calibrators(run, result.fitted, table, result.audits)
    rows = ((f"{kind}.{name}", value) for kind, own in result.audits.items() for name, value in own.items())
    run.log_metrics({short_label(name): value for name, value in rows})
    run.save(CALIBRATION_AUDIT, with_thin(result.audits, result.fitted, samples_of(bases, material.candidates)))
    if result.log_odds:
        run.save(HELD_OUT_LOG_ODDS, result.log_odds)
    if result.mixture is not None:
        run.save(COMBINED_MIXTURE, result.mixture)
    if result.ablation is not None:
        run.save(ABLATION, result.ablation)
    if config.has_shares:
        run.save(COMPLETENESS, completeness_lines(config.completeness))
    run.tag(RunTags(base_rate=str(config.rate)))


def _material(run: StageRun, table: ScoreTable, config: CalibrateConfig, bases: "Mapping[str, Basis]") -> "Material":
    """Load what the calibrators are fitted to."""
    from kgcore.combiners.fit import Material

    sees, candidates = EVIDENCE_STAGE.name in run.inputs, _candidates(run)
    return Material(
        table,
        config,
        bases,
        source=run.load(CORRUPTIONS)["valid"].source,
        cold=run.config(PrepareConfig).split_rule.cold_column,
        candidates=candidates,
        evidence=run.load(EVIDENCE) if sees else None,
        twins=(run.load(TWINS), run.load(TWIN_EVIDENCE)) if run.has(TWINS) else None,
        unlabelled=(run.load(MIXTURE_TRIPLES), run.load(CANDIDATE_EVIDENCE)) if sees and candidates else None,
        unseen=run.load(UNSEEN_ANSWERS) if run.has(UNSEEN_ANSWERS) else None,
    )


def _candidates(run: StageRun) -> "MatchedCandidates | None":
    """Return the candidates that the calibrators are fitted to; None if the run has no match run upstream."""
    if MATCH.name not in run.inputs:
        return None
    from kgcore.mixture.calibrate import MatchedCandidates

    config = run.config(MatchConfig)
    return MatchedCandidates(run.load(MIXTURE), run.load(MATCHED), config.match_replicates, config.match_seed)


def settle(config: CalibrateConfig, upstream: Sequence[StageRef]) -> CalibrateConfig:
    """Return the settings with the base rate of the candidates, if there is a match run among the upstream runs.

    Raises InputError and MismatchError as `Matched.settle` does.
    """
    matched = [ref for ref in upstream if ref.stage == MATCH.name]
    return open_store().load(matched[0].run_id, MATCHED).settle(config) if matched else config


def scores_of(inputs: Mapping[str, str], completeness: str) -> ScoreTable:
    """Load the scores that calibrators are fitted to.

    inputs        stage -> run id of the upstream stages of a calibrate run
    completeness  of the graph, as `read_completeness` takes it; '': not stated
    """
    store = open_store()
    table = store.load(inputs["score"], SCORES)
    if not completeness:
        return table
    return replace(table, completeness=read_completeness(completeness, store.load(inputs["prepare"], GRAPH)))


@as_task("check_completeness")
def check_completeness(data: StageRef, config: CalibrateConfig) -> None:
    """Check a file of shares before a model is trained.

    data  a prepare run

    Raises InputError if it cannot be read, if a line is wrong, or if it lacks a predicate that valid has.
    """
    graph = open_store().load(data.run_id, GRAPH)
    read_completeness(config.completeness, graph).missing(np.unique(graph.valid.positives[:, 1]))


def completeness_of(run: RunRecord) -> str:
    """Return the completeness that was stated to a calibrate run: a share, or the lines of its file; '': none."""
    if COMPLETENESS.path in (run.tags.artifacts or {}):
        return open_store().load(run.run_id, COMPLETENESS)
    return str(config_of(CalibrateConfig, run).completeness or "")


def _identity(config: CalibrateConfig) -> str:
    """Return the lines of a file of shares; '' without one."""
    return completeness_lines(config.completeness) if config.has_shares else ""


CALIBRATE = Stage(
    name="calibrate",
    summary="Fit calibrators on the scores of a score run.",
    title="calibrate {scores} to {config.rate.value}",
    config=CalibrateConfig,
    body=_body,
    code=_code,
    inputs={"scores": SCORE, "candidates": MATCH, "evidence": EVIDENCE_STAGE},
    optional=("candidates", "evidence"),
    normalise=lambda config: config.recorded,
    identity=_identity,
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
    config = config_of(CalibrateConfig, before).at(to.rate)
    upstream = upstream_of(calibrators)
    inputs = [upstream[name] for name in ("score", MATCH.name, EVIDENCE_STAGE.name) if name in upstream]

    def body(run: StageRun) -> None:
        from kgcore.calibrate.fit import calibration_bases
        from kgcore.combiners.fit import samples_of, with_thin

        table = scores_of(run.inputs, completeness_of(before))
        moved = [store.load_model(model_id, CALIBRATOR).at(config.rate) for model_id in before.model_ids]
        audits = store.load(before.run_id, CALIBRATION_AUDIT)
        _log_calibrators(run, moved, table, audits)
        samples = samples_of(calibration_bases(table, config_of(CalibrateConfig, before)), _candidates(run))
        run.save(CALIBRATION_AUDIT, with_thin(audits, moved, samples))
        _copy(run, before, HELD_OUT_LOG_ODDS)
        _copy(run, before, COMBINED_MIXTURE)
        _copy(run, before, ABLATION)
        _copy(run, before, COMPLETENESS)
        run.tag(RunTags(moved=before.run_id, base_rate=str(config.rate)))

    identity = f"moved {before.tags.key}"
    return run_stage("calibrate", config, inputs, ("kgcore.calibrate.calibrated",), body, context, identity)


def _copy(run: StageRun, before: RunRecord, artifact: Artifact[T]) -> None:
    """Save an artifact of an earlier calibrate run again, if it has this artifact."""
    if artifact.path in (before.tags.artifacts or {}):
        run.save(artifact, run.store.load(before.run_id, artifact))


def _log_calibrators(
    run: StageRun, fitted: "Sequence[Calibrated]", table: ScoreTable, audits: "Mapping[str, Mapping[str, float]]"
) -> None:
    """Log each calibrator as a LoggedModel and MLflow pyfunc, and which one answers.

    The example of a pyfunc shows names of validation positives. audits: see `answering_kinds`.
    """
    from kgcore.calibrate.validation import answering_label

    run.store.log_params(run.run_id, {"best": answering_label(fitted, audits)})
    triples = table.triples[table.rows("valid", LABELLED, 1)][:EXAMPLES].tolist()
    entities, predicates, [base] = run.load(ENTITIES), run.load(PREDICATES), run.model_ids("train")
    examples = [[entities[s], predicates[p], entities[o]] for s, p, o in triples]
    for number, bound in enumerate(fitted):
        params = calibrator_params(run, bound)
        name = f"{params['dataset']}-{params['model']}-{bound.label}"
        tags = {"label": bound.label, "base_model": base, "base_rate_is": bound.rate.origin}
        model_id = run.log_model(CALIBRATOR, bound, name, params, number, **tags)
        log_pyfunc(run.store, model_id, run.record, examples)


def calibrator_params(run: StageRun, bound: "Calibrated") -> dict[str, object]:
    """Return the parameters by which users compare calibrators in the MLflow UI."""
    train, loss = run.config(TrainConfig), loss_of(run.upstream("train"))
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
        others = [run.store.known(run_id) for run_id in named]
        params["other_models"] = " ".join(config_of(TrainConfig, other).model for other in others)
    params |= {"hidden_share": str(bound.hidden)} if bound.hidden else {}
    return params | corruption_params(run) if bound.negatives == "synthetic" else params


def corruption_params(run: StageRun) -> dict[str, object]:
    """Return the parameters that describe how the corruptions for calibration were drawn."""
    drawn = run.config(CorruptConfig)
    return {
        "calibration_strategy": shares_text(drawn.calibration_strategy),
        "calibration_sides": drawn.calibration_sides,
        "calibration_filtered": drawn.calibration_filtered,
    }
