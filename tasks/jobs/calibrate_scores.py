"""Calibrates the scores of any scorer. No graph is needed."""

from dataclasses import replace
from pathlib import Path

from filelock import FileLock

from kgcore.calibration.fit import labelled_sample
from kgcore.config import EvaluateConfig, ScoresConfig, WatchConfig
from kgcore.errors import InputError
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.fit import usable
from kgcore.external.rows import ScoreFile, in_halves, read_new_rows, read_scores, renumbered, tables_after
from kgcore.monitoring.drift import Check, DriftReference, check, find_evidence
from kgcore.monitoring.two_samples import NewTriples
from kgcore.score_table import ScoreTable
from tasks.jobs.calibrated_model import Ask, FoundScores, find_scores, registered_scores
from tasks.jobs.fitted_scores import ScoresRequest, ScoresResult, apply_scores, fit_and_measure, log_fit, result_of
from tasks.jobs.watch import FEWEST_OF_A_LABEL, WatchResult, markdown, readable
from tasks.tracking.artifacts import SCORE_ROWS
from tasks.tracking.labels import APPLY_SCORES, CALIBRATE_SCORES, WATCH_SCORES
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, registered_name, run_of_model
from tasks.tracking.store import Store, open_store
from tasks.workspace.progress import progress_bar


def calibrate_scores(
    request: ScoresRequest, config: ScoresConfig, evaluation: EvaluateConfig
) -> ScoresResult | WatchResult:
    """Fit calibrators to labelled scores, measure and log them, and give other rows their probabilities.

    With `watch`, a stored calibrator is checked instead; `recalibrate_scores` says what `recalibrate` adds. Without
    labelled scores, a stored calibrator gives the probabilities; a base rate in `config` shifts it.

    Raises InputError for wrong files, with file and line, FitError if a fit does not converge, and MismatchError if a
    stored calibrator belongs to another scorer.
    """
    request.check()
    store = open_store()
    if request.watch:
        seen = watch_scores(store, request, config)
        return recalibrate_scores(store, seen, request, config, evaluation) if request.recalibrate else seen
    if not request.file:
        return _apply_stored(store, request, config)
    usable(config)
    with progress_bar("read", 100) as move:
        file = read_scores(Path(request.file), config, lambda done: move(int(100 * done)))
    return log_fit(store, fit_and_measure(file, config, evaluation), request, config, evaluation)


def _apply_stored(store: Store, request: ScoresRequest, config: ScoresConfig) -> ScoresResult:
    """Give the rows of a file the probabilities of a stored calibrator."""
    found = find_scores(Ask(request.model, calibrator=request.calibrator, scorer=config.named))
    found = replace(found, calibrator=found.calibrator.at(config.base_rate))
    with store.open_run(f"apply scores of {config.named}", RunTags(stage=APPLY_SCORES, dataset=config.named)) as run_id:
        result = result_of(found, run_id)
        asked = {"score": config.score, "relation": config.relation, "apply": Path(request.apply).name}
        store.log_params(run_id, {**asked, "model": result.model, "base_rate": result.base_rate})
        return apply_scores(store, result, found, request, config)


def watch_scores(store: Store, request: ScoresRequest, config: ScoresConfig) -> WatchResult:
    """Measure a calibrator of scores on newly labelled rows, and test whether its probabilities are still right.

    The rows of `request.file` are a random sample of the rows that are asked about. `request.model` names the
    calibrator; '': the champion of the scorer. The rows must be new: the calibrator must not be fitted to them. Every
    check of the calibrators of a fit counts, so that the error level of all of them together is that of `WatchConfig`.

    Raises InputError as `read_new_rows` and `find_scores` do, for the rows of the fit, and for too few rows.
    """
    limits, path = WatchConfig(), Path(request.file)
    uri = request.model or f"models:/{registered_name(registered_scores(config.named))}@{CHAMPION}"
    found = find_scores(Ask(uri, calibrator=request.calibrator, scorer=config.named))
    made_by = run_of_model(store, f"models:/{found.located.model_id}")
    new = read_new_rows(path, config)
    if new.dataset == found.calibrator.bound.dataset:
        raise InputError(f"{path} has the rows that the calibrator was fitted to: give newly labelled rows")
    if len(new) < limits.at_least:
        raise InputError(f"{path} has {len(new):,} rows: the tests need at least {limits.at_least}")
    tags = RunTags(stage=WATCH_SCORES, dataset=config.named, inputs={CALIBRATE_SCORES: made_by})
    with FileLock(store.home / "watch.lock"):
        number = 1 + len(store.find_all(tags))
        asked, origin = _as_asked(new, found.calibrator), _origin(store.load(made_by, SCORE_ROWS), found.calibrator)
        measured = check(found.calibrator.calibrate(asked.scores, asked.predicates)[0], asked, origin, limits, number)
        with store.open_run(f"watch scores of {config.named}", tags) as run_id:
            result = _result(found, path, config, measured, number, run_id)
            store.log_params(run_id, {"file": path.name, "model": result.model, **limits.as_dict()})
            metrics = {**result.metrics, "check": float(number)}
            store.log_metrics(run_id, metrics, model_id=found.located.model_id)
            store.log_tags(run_id, RunTags(note=markdown(result)))
    return result


def recalibrate_scores(
    store: Store, seen: WatchResult, request: ScoresRequest, config: ScoresConfig, evaluation: EvaluateConfig
) -> WatchResult:
    """Fit calibrators again if a check asks for it. The best becomes the champion if it passes the gate.

    Half of the new rows, drawn at random, is for the fit and for the new base rate. The other half measures the
    calibrators and the champion, so no calibrator is measured on rows that it was fitted to. If the map has moved, two
    fits are compared: see `tables_after`.

    Returns the check, with the run of the new calibrators and the decision of the gate among its notes; the check as it
    was, if it asks for nothing that a fit can do.

    Raises InputError if only the old or only the new rows have relations.
    """
    if seen.answer not in ("shift", "refit"):
        return seen
    found = find_scores(Ask(seen.model, scorer=config.named))
    old = store.load(run_of_model(store, seen.model), SCORE_ROWS)
    new = in_halves(read_new_rows(Path(request.file), config), config.fold_seed)
    half = new.part(new.rows("valid"))
    rate = float(half.labels.mean())
    if seen.answer == "shift":
        asked, origin = _as_asked(half, found.calibrator), _origin(old, found.calibrator)
        q, _, _ = found.calibrator.calibrate(asked.scores, asked.predicates)
        rate = find_evidence(q, asked, origin).moved_base_rate.value
    config = config.replace(base_rate=readable(rate))
    tables = tables_after(seen.answer, old, new, readable(rate), FEWEST_OF_A_LABEL)
    fits = [(what, fit_and_measure(ScoreFile(table), config, evaluation)) for what, table in tables.items()]
    what, fitted = min(fits, key=lambda fit: fit[1].best[1])
    asks = replace(request, watch=False, recalibrate=False, promote=True, calibrator="")
    result = log_fit(store, fitted, asks, config, evaluation, len(fits))
    store.log_tags(seen.run, RunTags(recalibrated=result.run))
    said = f"calibrators were fitted to {what}: {result.promotion}"
    return replace(seen, recalibrated=result.run, notes=(*seen.notes, said))


def _origin(fitted: ScoreTable, calibrator: ScoreCalibrator) -> DriftReference:
    """Return what a calibrator was fitted and measured on: its rows, weighted to the base rate of its fit."""
    bound = calibrator.bound
    at_fit = bound.base_rate if bound.fitted_at is None else bound.fitted_at
    sample = labelled_sample(replace(fitted, labelled_base_rate=at_fit))
    return DriftReference(
        sample, bound.base_rate, calibrator.by_relation, sample.scores, sample.weights, bound.rate.limits
    )


def _as_asked(new: ScoreTable, calibrator: ScoreCalibrator) -> NewTriples:
    """Return new rows as the calibrator takes them: with its numbers of the relations, if it has a map for each.

    Raises InputError if it has, and the rows have no relations.
    """
    if not calibrator.by_relation:
        return NewTriples(new.scores, new.labels)
    if not new.relations:
        name = calibrator.bound.name
        raise InputError(f"the calibrator {name} has a map for each relation: name their column: --relation")
    return NewTriples(new.scores, new.labels, renumbered(new.relations, calibrator.relations, new.triples[:, 1]))


def _result(
    found: FoundScores, path: Path, config: ScoresConfig, measured: Check, number: int, run_id: str
) -> WatchResult:
    rate, answer, model = readable(measured.evidence.moved_base_rate.value), measured.report.answer, found.located.uri
    asked = f"--scorer {config.named} --score {config.score}"
    commands = {
        "shift": f"kgcal calibrate-scores --model {model} {asked} --base-rate {rate:g} --apply FILE --output FILE",
        "refit": f"kgcal calibrate-scores {path} {asked} --label {config.label} --promote",
    }
    findings, notes = (
        tuple(text.replace("triple", "row") for text in said)
        for said in (measured.report.findings, measured.report.notes)
    )
    said = (measured.metrics(), findings, notes, answer, commands.get(answer, ""))
    return WatchResult(config.named, model, *said, number, run_id)
