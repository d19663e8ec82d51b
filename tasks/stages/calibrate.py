"""calibrate: fit the calibrators that turn scores into probabilities."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kgcore.completeness import completeness_lines, read_completeness
from kgcore.config import CalibrateConfig, CorruptConfig, MatchConfig, PrepareConfig
from kgcore.registries import ALL_CALIBRATORS
from kgcore.registries import EVIDENCE as EVIDENCE_GROUPS
from kgcore.score_table import LABELLED, ScoreTable
from tasks.stages.calibrator_model import log_calibrator
from tasks.stages.evidence import EVIDENCE_STAGE
from tasks.stages.match import MATCH
from tasks.stages.reference import Context, StageRef
from tasks.stages.running import Stage, StageRun, as_task, config_of, run_stage
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
    UNSEEN_ANSWERS,
    Artifact,
)
from tasks.tracking.labels import short_label
from tasks.tracking.mlmodel import EXAMPLES
from tasks.tracking.record import RunRecord, RunTags
from tasks.tracking.store import open_store

if TYPE_CHECKING:
    from kgcore.calibration.calibrated import Calibrated
    from kgcore.calibration.fit import Basis, MatchedCandidates
    from kgcore.calibration.sample import CalibrationSample
    from kgcore.combiners.base import EvidenceSample
    from kgcore.mixture.samples import MixtureData

    Combined = tuple[list[tuple[Calibrated, CalibrationSample]], list[tuple[Calibrated, MixtureData]]]

T = TypeVar("T")


_COMBINE = ("kgcore.calibration.combine", "kgcore.combiners.ablation")


def _code(config: CalibrateConfig) -> tuple[str, ...]:
    return (
        "kgcore.calibration.fit",
        "kgcore.calibration.answering",
        "kgcore.calibration.audit",
        "kgcore.calibration.audit",
        *(_COMBINE if config.combiners else ()),
        *map(ALL_CALIBRATORS.module, config.calibrators),
    )


def _body(run: StageRun, config: CalibrateConfig) -> None:
    """Fit the calibrators, log each of them as a separate LoggedModel, and log an audit of the scores."""
    from kgcore.calibration.answering import in_order
    from kgcore.calibration.audit import score_audit
    from kgcore.calibration.fit import GROUND_TRUTH, calibration_bases, fit_calibrators

    table, candidates = scores_of(run.inputs, config.completeness), _candidates(run)
    bases = calibration_bases(table, config, run.config(CorruptConfig))
    examples, fitted = _examples(run, table), fit_calibrators(table, config, bases, candidates)
    samples = _samples(bases, candidates)
    combined = _combine(run, table, config, bases, candidates)
    figures = _validation_figures(run, table, config, samples, candidates, fitted, combined)
    beside = [bound for own in combined for bound, _ in own]
    fitted = _with_unseen(run, in_order([*fitted, *beside], figures))
    for number, bound in enumerate(fitted):
        log_calibrator(run, number, bound, examples)
    soft = table.soft("valid")
    audits = {name: score_audit(sample, soft and name == GROUND_TRUTH) for name, sample in samples.items()}
    for kind, own in figures.items():
        audits[kind] |= own
    hidden = next((bound.hidden for bound in fitted if bound.hidden), None)
    audits["synthetic"] |= table.search_figures() | (hidden.figures() if hidden else {})
    rows = ((short_label(f"{name}.{row[0]}"), row[1]) for name, figures in audits.items() for row in figures.items())
    run.log_metrics(dict(rows))
    _save_audit(run, audits, fitted, samples)
    if config.has_shares:
        run.save(COMPLETENESS, completeness_lines(config.completeness))
    run.tag(RunTags(base_rate=str(config.rate)))


def _combine(
    run: StageRun,
    table: ScoreTable,
    config: CalibrateConfig,
    bases: "Mapping[str, Basis]",
    candidates: "MatchedCandidates | None",
) -> "Combined":
    """Fit the calibrators that see evidence, if there is an evidence run.

    They are fitted to labelled triples, and to candidates; if there are neither, to positives and corruptions. Return
    those of labelled triples or corruptions, and those of candidates, each with what it was fitted to.
    """
    from kgcore.calibration.combine import evidence_sample, fit_combiners, fit_to_unlabelled
    from kgcore.calibration.fit import GROUND_TRUTH, SYNTHETIC
    from kgcore.calibration.folds import row_groups

    labelled: list[tuple[Calibrated, CalibrationSample]] = []
    unlabelled: list[tuple[Calibrated, MixtureData]] = []
    if "evidence" not in run.inputs:
        return labelled, unlabelled
    evidence = run.load(EVIDENCE)
    if GROUND_TRUTH in bases and not table.soft("valid"):
        labelled = list(fit_combiners(table, evidence, bases[GROUND_TRUTH], config))
        _ablate(run, evidence_sample(table, evidence, bases[GROUND_TRUTH], config), evidence.groups, config)
    elif not (candidates or table.soft("valid")):
        groups = row_groups(table, run.load(CORRUPTIONS)["valid"].source, config.weighted)[SYNTHETIC]
        labelled = list(fit_combiners(table, evidence, bases[SYNTHETIC], config, groups))
    if labelled:
        run.save(HELD_OUT_LOG_ODDS, {bound.label: own.scores for bound, own in labelled})
    if candidates:
        seen, triples = run.load(CANDIDATE_EVIDENCE), run.load(MIXTURE_TRIPLES)
        unlabelled = list(fit_to_unlabelled(table, seen, triples, candidates, config))
        run.save(COMBINED_MIXTURE, unlabelled[0][1])
    return labelled, unlabelled


def _validation_figures(
    run: StageRun,
    table: ScoreTable,
    config: CalibrateConfig,
    samples: "Mapping[str, CalibrationSample]",
    candidates: "MatchedCandidates | None",
    fitted: "Sequence[Calibrated]",
    combined: "Combined",
) -> dict[str, dict[str, float]]:
    """Return the figures by which the calibrators of each kind of negatives are ordered: kind -> figures.

    fitted    the calibrators that see the score alone
    combined  the output of `_combine`
    """
    from kgcore.calibration.answering import fit_errors, held_out_figures, unlabelled_figures
    from kgcore.calibration.fit import CANDIDATES
    from kgcore.calibration.folds import row_groups

    alone = {kind: [bound for bound in fitted if bound.negatives == kind] for kind in samples}
    cold = run.config(PrepareConfig).split_rule.cold_column
    groups = row_groups(table, run.load(CORRUPTIONS)["valid"].source, config.weighted, cold)
    figures: dict[str, dict[str, float]] = {}
    for kind, sample in samples.items():
        if kind != CANDIDATES:
            beside = [own for own in combined[0] if own[0].negatives == kind]
            every = [*((bound, sample) for bound in alone[kind]), *beside]
            rng = np.random.default_rng(config.combine_seed)
            figures[kind] = held_out_figures(every, groups[kind], config.combine_folds, rng) if every else {}
            if cold is not None:
                figures[kind] |= fit_errors(every, groups[kind], rng)
    if candidates:
        figures[CANDIDATES] = unlabelled_figures(
            [*((bound, candidates.data) for bound in alone[CANDIDATES]), *combined[1]]
        )
    return figures


def _ablate(run: StageRun, sample: "EvidenceSample", groups: Sequence[str], config: CalibrateConfig) -> None:
    """Save what each group of evidence adds to the score, if there are the score and other groups."""
    from kgcore.combiners.ablation import SCORE, ablate

    if SCORE not in groups or len(groups) == 1:
        return
    features = {name: EVIDENCE_GROUPS.get(name).own(sample.names) for name in groups}
    run.save(ABLATION, ablate(sample, features, np.random.default_rng(config.combine_seed)))


def _with_unseen(run: StageRun, fitted: "Sequence[Calibrated]") -> "list[Calibrated]":
    """Give the answers about unseen entities to the calibrators that were fitted to labelled triples, as these were."""
    from kgcore.calibration.fit import GROUND_TRUTH

    if not run.has(UNSEEN_ANSWERS):
        return list(fitted)
    unseen = run.load(UNSEEN_ANSWERS)
    given = []
    for bound in fitted:
        if bound.negatives == GROUND_TRUTH:
            unseen.check(bound.embedding_models[0], bound.dataset)
            bound = replace(bound, unseen=unseen)
        given.append(bound)
    return given


def _save_audit(
    run: StageRun,
    audits: dict[str, dict[str, float]],
    fitted: "Sequence[Calibrated]",
    samples: "Mapping[str, CalibrationSample]",
) -> None:
    """Save the audits of the samples, with the support of each calibrator's high probabilities."""
    from kgcore.calibration.audit import thin_figures

    every = {name: dict(figures) for name, figures in audits.items()}
    for bound in fitted:
        if bound.support is not None and bound.combined is None:
            every[bound.negatives] |= thin_figures(bound, samples[bound.negatives])
    run.save(CALIBRATION_AUDIT, every)


def _samples(bases: "Mapping[str, Basis]", candidates: "MatchedCandidates | None") -> "dict[str, CalibrationSample]":
    """Return the calibration samples by kind of negatives."""
    from kgcore.calibration.fit import CANDIDATES
    from kgcore.calibration.matched import candidate_sample

    samples = {kind: basis.sample for kind, basis in bases.items()}
    return samples | ({CANDIDATES: candidate_sample(candidates.data, candidates.matched)} if candidates else {})


def _candidates(run: StageRun) -> "MatchedCandidates | None":
    """Return the candidates that the calibrators are fitted to; None if the run has no match run upstream."""
    from kgcore.calibration.fit import MatchedCandidates

    if MATCH.name not in run.inputs:
        return None
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
        from kgcore.calibration.fit import calibration_bases

        table = scores_of(run.inputs, completeness_of(before))
        examples = _examples(run, table)
        fitted = [store.load_model(model_id, CALIBRATOR) for model_id in before.model_ids]
        moved = [bound.at(config.rate) for bound in fitted]
        for number, bound in enumerate(moved):
            log_calibrator(run, number, bound, examples)
        bases = calibration_bases(table, config_of(CalibrateConfig, before))
        samples = _samples(bases, _candidates(run))
        _save_audit(run, store.load(before.run_id, CALIBRATION_AUDIT), moved, samples)
        _copy(run, before, HELD_OUT_LOG_ODDS)
        _copy(run, before, COMBINED_MIXTURE)
        _copy(run, before, ABLATION)
        _copy(run, before, COMPLETENESS)
        run.tag(RunTags(moved=before.run_id, base_rate=str(config.rate)))

    identity = f"moved {before.tags.key}"
    return run_stage("calibrate", config, inputs, ("kgcore.calibration.calibrated",), body, context, identity)


def _copy(run: StageRun, before: RunRecord, artifact: Artifact[T]) -> None:
    """Save an artifact of an earlier calibrate run again, if it has this artifact."""
    if artifact.path in (before.tags.artifacts or {}):
        run.save(artifact, run.store.load(before.run_id, artifact))


def _examples(run: StageRun, table: ScoreTable) -> list[list[str]]:
    """Return the names of the first validation positives, which show how to ask a calibrator."""
    triples = table.triples[table.rows("valid", LABELLED, 1)][:EXAMPLES].tolist()
    entities, predicates = run.load(ENTITIES), run.load(PREDICATES)
    return [[entities[s], predicates[p], entities[o]] for s, p, o in triples]
