"""Checks a calibrator of scores on newly labelled rows, as `watch` checks the champion of a data set."""

from dataclasses import asdict
from pathlib import Path

import numpy as np
from filelock import FileLock

from kgcore.config import ScoresConfig, WatchConfig
from kgcore.errors import InputError
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.external.read import read_new_rows
from kgcore.external.rows import ScoreRows
from kgcore.monitoring.drift import Check, Origin, check
from kgcore.monitoring.two_samples import NewTriples
from tasks.jobs.score_model import FoundScoreModel, find_score_model, registered_scores
from tasks.jobs.watch import WatchResult, markdown, readable
from tasks.tracking.artifacts import SCORE_ROWS
from tasks.tracking.labels import CALIBRATE_SCORES, WATCH_SCORES
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, registered_name, run_of_model
from tasks.tracking.store import Store


def watch_scores(store: Store, path: Path, model: str, calibrator: str, config: ScoresConfig) -> WatchResult:
    """Measure a calibrator of scores on newly labelled rows, and test whether its probabilities are still right.

    path   file of newly labelled scores, a random sample of the rows that are asked about
    model  the calibrator, as in `find_score_model`; '': the champion of the scorer

    The rows must be new: the calibrator must not be fitted to them. Every check of the calibrators of a fit counts, so
    that the error level of all of them together is that of `WatchConfig`.

    Raises InputError as `read_new_rows` and `find_score_model` do, for the rows of the fit, and for too few rows.
    """
    limits = WatchConfig()
    uri = model or f"models:/{registered_name(registered_scores(config.named))}@{CHAMPION}"
    found = find_score_model(store, uri, config.named, calibrator)
    made_by = run_of_model(store, f"models:/{found.model_id}")
    new = read_new_rows(path, config)
    if new.fingerprint() == found.calibrator.bound.dataset:
        raise InputError(f"{path} has the rows that the calibrator was fitted to: give newly labelled rows")
    if len(new) < limits.at_least:
        raise InputError(f"{path} has {len(new):,} rows: the tests need at least {limits.at_least}")
    tags = RunTags(stage=WATCH_SCORES, dataset=config.named, inputs={CALIBRATE_SCORES: made_by})
    with FileLock(store.home / "watch.lock"):
        number = 1 + len(store.find_all(tags))
        measured = _check(store.load(made_by, SCORE_ROWS), new, found, limits, number)
        with store.open_run(f"watch scores of {config.named}", tags) as run_id:
            result = _result(found, path, config, measured, number, run_id)
            store.log_params(run_id, {"file": path.name, "model": found.uri, **asdict(limits)})
            store.log_metrics(run_id, {**result.metrics, "check": float(number)}, model_id=found.model_id)
            store.log_tags(run_id, RunTags(note=markdown(result)))
    return result


def origin_of(fitted: ScoreRows, calibrator: ScoreCalibrator) -> Origin:
    """Return what a calibrator was fitted and measured on: its rows, weighted to the base rate of its fit."""
    bound = calibrator.bound
    sample = fitted.sample(bound.base_rate if bound.fitted_at is None else bound.fitted_at)
    by_relation = bound.calibrator.by_predicate
    return Origin(sample, bound.base_rate, by_relation, sample.scores, sample.weights, bound.limits)


def as_asked(new: ScoreRows, calibrator: ScoreCalibrator) -> NewTriples:
    """Return new rows as the calibrator takes them: with its numbers of the relations, if it has a map for each.

    Raises InputError if it has, and the rows have no relations.
    """
    if not calibrator.bound.calibrator.by_predicate:
        return NewTriples(new.scores, new.labels, None)
    if new.relations is None:
        name = calibrator.bound.name
        raise InputError(f"the calibrator {name} has a map for each relation: name their column: --relation")
    numbers = {name: number for number, name in enumerate(calibrator.relations)}
    renumbered = np.array([numbers.get(name, len(numbers)) for name in new.names], dtype=np.int64)
    return NewTriples(new.scores, new.labels, renumbered[new.relations])


def _check(fitted: ScoreRows, new: ScoreRows, found: FoundScoreModel, limits: WatchConfig, number: int) -> Check:
    """Measure a calibrator on new rows. `fitted` are the rows that it was fitted on."""
    asked = as_asked(new, found.calibrator)
    probabilities, _, _ = found.calibrator.predict(asked.scores, asked.predicates)
    return check(probabilities, asked, origin_of(fitted, found.calibrator), limits, number)


def _result(
    found: FoundScoreModel, path: Path, config: ScoresConfig, made: Check, number: int, run_id: str
) -> WatchResult:
    rate, answer = readable(made.evidence.moved_base_rate.value), made.report.answer
    asked = f"--scorer {config.named} --score {config.score}"
    commands = {
        "shift": f"kgcal calibrate-scores --model {found.uri} {asked} --base-rate {rate:g} --apply FILE --output FILE",
        "refit": f"kgcal calibrate-scores {path} {asked} --label {config.label} --promote",
    }
    findings, notes = (
        tuple(text.replace("triple", "row") for text in said) for said in (made.report.findings, made.report.notes)
    )
    said = (made.metrics(), findings, notes, answer, commands.get(answer, ""))
    return WatchResult(config.named, found.uri, *said, number, run_id)
