"""Finds the calibrator of scores that the user names, and names the registered model of a scorer."""

from dataclasses import dataclass

from kgcore.errors import InputError
from kgcore.external.calibrator import ScoreCalibrator
from tasks.jobs.calibrated_model import Located
from tasks.jobs.manifest import LATEST, named_run
from tasks.tracking.artifacts import SCORE_CALIBRATOR
from tasks.tracking.labels import CALIBRATE_SCORES, model_name
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, aliased, model_of_uri, run_of_model
from tasks.tracking.store import Store


@dataclass(frozen=True)
class AskScores:
    """The choice of the calibrator of scores that answers.

    scorer      name of the scorer; '': that of the model
    model       as in `find_score_model`; '': the champion of the scorer or, if it has none, its newest run
    calibrator  label of one of the calibrators of a run; '': the best one
    """

    scorer: str = ""
    model: str = ""
    calibrator: str = ""


@dataclass(frozen=True)
class FoundScoreModel:
    """A calibrator of scores in the store: its id, its URI, and the calibrator itself."""

    model_id: str
    uri: str
    calibrator: ScoreCalibrator


def registered_scores(scorer: str) -> str:
    """Return the name under which calibrators of a scorer are registered, without the prefix `kgcal-`."""
    return f"scores-{model_name(scorer)}"


def find_score_model(store: Store, text: str, scorer: str, calibrator: str) -> FoundScoreModel:
    """Return the calibrator of scores that `text` names.

    text        URI of a calibrator or of a version, id of a run of `calibrate-scores`, or latest: the newest such run
                of the scorer
    scorer      name of the scorer whose scores are to be calibrated
    calibrator  label of one of the calibrators of a run; '': the best one

    Raises InputError if there is no such calibrator, MismatchError if it belongs to another scorer.
    """
    return read_score_model(store, _place(store, text, scorer, calibrator), scorer)


def locate_scores(store: Store, ask: AskScores) -> Located:
    """Return the place of the calibrator of scores that a choice names. Raises InputError if there is none."""
    if not (ask.model or ask.scorer):
        raise InputError("name the scorer with --scorer, or a calibrator with --model")
    if not ask.model and not ask.calibrator:
        champion = aliased(store, registered_scores(ask.scorer), CHAMPION)
        if champion is not None:
            return Located(champion.model_id, champion.uri)
    return _place(store, ask.model or LATEST, ask.scorer, ask.calibrator)


def read_score_model(store: Store, located: Located, scorer: str) -> FoundScoreModel:
    """Read a calibrator of scores. Raises MismatchError if it belongs to another scorer; '' is any scorer."""
    found = FoundScoreModel(located.model_id, located.uri, store.load_model(located.model_id, SCORE_CALIBRATOR))
    if scorer:
        found.calibrator.check_scorer(scorer)
    return found


def names_scores(store: Store, text: str) -> bool:
    """Return whether a text, the URI of a model or the id of a run, names a calibrator of scores."""
    if text in ("", LATEST):
        return False
    return named_run(store, text).tags.stage == CALIBRATE_SCORES


def _place(store: Store, text: str, scorer: str, calibrator: str) -> Located:
    if not text.startswith("models:/"):
        model_id = _of_run(store, _run_id(store, text, scorer), calibrator)
        return Located(model_id, f"models:/{model_id}")
    run = store.get(run_of_model(store, text))
    if run.tags.stage != CALIBRATE_SCORES:
        raise InputError(f"the model {text} is not a calibrator of scores: use `kgcal predict --model {text}`")
    if calibrator:
        raise InputError(f"the model {text} is already a calibrator: leave out --calibrator {calibrator}")
    return Located(model_of_uri(store, text), text)


def _run_id(store: Store, text: str, scorer: str) -> str:
    if text != LATEST:
        return text
    found = store.find(RunTags(stage=CALIBRATE_SCORES, dataset=scorer))
    if not found:
        raise InputError(f"no calibrator of the scorer {scorer!r} was fitted: give a file of its labelled scores first")
    return found[0].run_id


def _of_run(store: Store, run_id: str, label: str) -> str:
    """Return the id of the LoggedModel with this label, or of the best one, which the run's parameters name."""
    run = store.finished(CALIBRATE_SCORES, run_id)
    labels = {store.model(model_id).label: model_id for model_id in run.model_ids}
    wanted = chosen(label, list(labels)) if label else run.params.get("best", "")
    if wanted not in labels:
        raise InputError(f"run {run_id} has no calibrators: give a run that fitted some")
    return labels[wanted]


def chosen(name: str, labels: list[str]) -> str:
    """Return the label that a user means: `beta` and `ground_truth.beta` are the same. Raises InputError if unknown."""
    for label in labels:
        if name in (label, label.rpartition(".")[2]):
            return label
    raise InputError(f"there is no calibrator {name!r}: there are {', '.join(labels)}")
