"""Registers a calibrator of scores, and makes it the champion of its scorer if it passes the gate."""

from dataclasses import dataclass

import numpy as np
from filelock import FileLock

from kgcore.arrays import Probabilities
from kgcore.config import STATED, GateConfig
from kgcore.errors import InputError
from kgcore.evaluation.predictions import Predictions
from kgcore.external.calibrator import UNKNOWN, ScoreCalibrator
from kgcore.monitoring.gate import gate
from kgcore.monitoring.paired import Rows
from tasks.jobs.score_model import FoundScoreModel, registered_scores
from tasks.tracking.artifacts import SCORE_CALIBRATOR
from tasks.tracking.keys import digest
from tasks.tracking.registry import CHALLENGER, CHAMPION, aliased, register, set_alias
from tasks.tracking.store import Store


@dataclass(frozen=True)
class ScorePromotion:
    """The decision whether a calibrator of scores becomes the champion.

    uri       URI of its version
    passed    whether it became the champion
    sentence  the reason
    """

    uri: str
    passed: bool
    sentence: str


def promote_scores(
    store: Store, challenger: FoundScoreModel, predictions: Predictions, candidates: int, config: GateConfig
) -> ScorePromotion:
    """Register a calibrator as challenger of its scorer, and compare it with the champion at the same base rate.

    predictions  probabilities of the measured rows
    candidates   number of calibrators among which it is the best

    Without a champion, it is compared with the constant base rate. The challenger did not see the labels of these
    rows. The champion did if it was fitted to some of them, which favours the champion.

    Raises InputError if the champion takes scores of another scale.
    """
    one = challenger.calibrator
    name, label = registered_scores(one.scorer), one.bound.label
    with FileLock(store.home / "locks" / f"promote-{name}.lock"):
        version = register(store, name, challenger.model_id, f"{label} of {one.scorer}", digest(one.to_json()))
        set_alias(store, name, CHALLENGER, version)
        champion = aliased(store, name, CHAMPION)
        if champion is not None and champion.number == version.number:
            return ScorePromotion(version.uri, False, f"{version.uri} ({label}) is already the champion")
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
        return ScorePromotion(version.uri, verdict.passed, reason.replace(" triples ", " rows "))


def _of_champion(champion: ScoreCalibrator, challenger: ScoreCalibrator, predictions: Predictions) -> Probabilities:
    """Return the champion's probabilities of the measured rows, at the base rate of the challenger."""
    if champion.scale != challenger.scale:
        raise InputError(
            f"the champion of {champion.scorer} takes scores of --scale {champion.scale}, the challenger of --scale "
            f"{challenger.scale}: give the same scale, or remove the alias `champion`"
        )
    numbers = {name: number for number, name in enumerate(champion.relations)}
    renumbered = np.array([*(numbers.get(name, UNKNOWN) for name in challenger.relations), UNKNOWN], dtype=np.int64)
    relations = renumbered[predictions.triples[:, 1]] if challenger.relations else None
    if relations is None:
        relations = np.full(len(predictions.scores), UNKNOWN)
    return champion.at(challenger.bound.base_rate).predict(predictions.scores, relations)[0]
