"""Finds the calibrator of scores that the user names, and names the registered model of a scorer."""

from dataclasses import dataclass

from kgcore.errors import InputError
from kgcore.external.calibrator import ScoreCalibrator
from tasks.jobs.manifest import LATEST
from tasks.tracking.artifacts import SCORE_CALIBRATOR
from tasks.tracking.labels import CALIBRATE_SCORES, model_name
from tasks.tracking.record import RunTags
from tasks.tracking.registry import model_of_uri, run_of_model
from tasks.tracking.store import Store


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
    if text.startswith("models:/"):
        run = store.get(run_of_model(store, text))
        if run.tags.stage != CALIBRATE_SCORES:
            raise InputError(f"the model {text} is not a calibrator of scores: use `kgcal predict --model {text}`")
        if calibrator:
            raise InputError(f"the model {text} is already a calibrator: leave out --calibrator {calibrator}")
        model_id, uri = model_of_uri(store, text), text
    else:
        model_id = _of_run(store, _run_id(store, text, scorer), calibrator)
        uri = f"models:/{model_id}"
    found = FoundScoreModel(model_id, uri, store.load_model(model_id, SCORE_CALIBRATOR))
    found.calibrator.check_scorer(scorer)
    return found


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
