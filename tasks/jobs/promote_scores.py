"""Registers a calibrator of scores, and makes it the champion of its scorer if it passes the gate."""

import numpy as np
from filelock import FileLock

from kgcore.arrays import Ints, Probabilities
from kgcore.config import STATED, GateConfig
from kgcore.errors import InputError
from kgcore.evaluation.predictions import Predictions
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.monitoring.gate import gate
from kgcore.monitoring.paired import Rows
from tasks.jobs.calibrated_model import FoundScores, registered_scores
from tasks.jobs.promote import Decision
from tasks.tracking.artifacts import SCORE_CALIBRATOR
from tasks.tracking.keys import digest
from tasks.tracking.registry import CHALLENGER, CHAMPION, aliased, register, set_alias
from tasks.tracking.store import Store


def promote_scores(
    store: Store, found: FoundScores, predictions: Predictions, candidates: int, config: GateConfig
) -> Decision:
    """Register a calibrator as challenger of its scorer, and compare it with the champion at the same base rate.

    predictions  probabilities of the measured rows
    candidates   number of calibrators among which it is the best

    Without a champion, it is compared with the constant base rate. The challenger did not see the labels of these
    rows. The champion did if it was fitted to some of them, which favours the champion.

    Raises InputError if the champion takes scores of another scale.
    """
    one = found.calibrator
    name, label = registered_scores(one.scorer), one.bound.label
    with FileLock(store.home / "locks" / f"promote-{name}.lock"):
        version = register(store, name, found.located.model_id, f"{label} of {one.scorer}", digest(one.to_json()))
        set_alias(store, name, CHALLENGER, version)
        champion = aliased(store, name, CHAMPION)
        if champion is not None and champion.number == version.number:
            reason = f"{version.uri} ({label}) is already the champion"
            return Decision(one.scorer, version.uri, version.uri, False, reason, None)
        other = store.load_model(champion.model_id, SCORE_CALIBRATOR) if champion else None
        count = len(predictions.labels)
        rows = Rows(predictions.labels, predictions.weights, np.arange(count), one.bound.base_rate_is == STATED)
        verdict = gate(
            predictions.probabilities[label],
            None if other is None else _of_champion(other, one, predictions),
            rows,
            config,
            (1 - config.level) / 2 / candidates,  # Bonferroni: it is the best of several
        )
        if verdict.passed:
            set_alias(store, name, CHAMPION, version)
        against = f"the champion, {champion.uri}" if champion else "the base rate, as there is no champion yet"
        outcome = "It is the new champion." if verdict.passed else "It is not promoted."
        reason = f"{version.uri} ({label}) against {against}: {verdict.reason()}. {outcome}"
        now = version if verdict.passed else champion
        return Decision(
            one.scorer,
            version.uri,
            now.uri if now else None,
            verdict.passed,
            reason.replace(" triples ", " rows "),
            None,
        )


def _of_champion(champion: ScoreCalibrator, challenger: ScoreCalibrator, predictions: Predictions) -> Probabilities:
    """Return the champion's probabilities of the measured rows, at the base rate of the challenger."""
    if champion.scale != challenger.scale:
        raise InputError(
            f"the champion of {champion.scorer} takes scores of --scale {champion.scale}, the challenger of --scale "
            f"{challenger.scale}: give the same scale, or remove the alias `champion`"
        )
    relations: Ints = champion.numbers(challenger.relations, predictions.triples[:, 1])
    return champion.at(challenger.bound.base_rate).calibrate(predictions.scores, relations)[0]
