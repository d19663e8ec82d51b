"""Finds the calibrated model that answers: the champion of a data set, or a model that the user names."""

import logging
from dataclasses import dataclass, replace

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.answering import answers_because
from kgcore.errors import InputError
from kgcore.loaded import LoadedModel
from tasks.jobs.compare import dataset_name
from tasks.jobs.manifest import named_run, newest_pipeline, resolve
from tasks.tracking.artifacts import CALIBRATION_AUDIT, MANIFEST
from tasks.tracking.labels import ENSEMBLE_NAME
from tasks.tracking.record import RunTags
from tasks.tracking.registry import CHAMPION, aliased, load_calibrated, model_of_uri
from tasks.tracking.store import Store, open_store

log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class Located:
    """The place of a calibrated model in the store.

    model_id  id of the LoggedModel of the calibrator or the ensemble
    uri       URI of the champion's version or of this LoggedModel
    """

    model_id: str
    uri: str


@dataclass(frozen=True)
class FoundModel:
    """A calibrated model, and its names.

    located  its place in the store
    dataset  name of the data set that it was trained on
    label    label of the calibrator, such as `synthetic.isotonic`, or of the ensemble, such as `synthetic.linear`
    model    the model itself
    because  why it answers, in sentences; '' if the user has named it
    """

    located: Located
    dataset: str
    label: str
    model: CalibratedModel
    because: str = ""

    @property
    def uri(self) -> str:
        """Return the URI of the model."""
        return self.located.uri

    @property
    def model_id(self) -> str:
        """Return the id of the LoggedModel."""
        return self.located.model_id


@dataclass(frozen=True)
class Ask:
    """The choice of the calibrated model that answers.

    model       a run id or `latest`, or the URI of a calibrator, of an ensemble or of a version of a registered model;
                '': the champion of the data set or, if it has none, the calibrators of its newest calibrate run
    dataset     name of the data set, or the folder of the user's files; '': the data set of the newest pipeline
    calibrator  label of one of the calibrators or ensembles of a run, such as `synthetic.isotonic` or
                `synthetic.linear`; '': the best on validation of those fitted on labelled negatives if there are any,
                otherwise to candidates if there are any
    """

    model: str = ""
    dataset: str = ""
    calibrator: str = ""


def find_calibrated_model(ask: Ask) -> FoundModel:
    """Return the calibrated model that a choice names. Raises InputError as `locate` and `read_located` do."""
    found = read_located(locate(ask))
    if not ask.calibrator and found.uri == f"models:/{found.model_id}" != ask.model:
        which = "" if ask.model else f"{found.dataset} has no champion: the newest calibrators answer. "
        found = replace(found, because=f"{which}{_because(found)}")
    elif not ask.model and not ask.calibrator:
        found = replace(found, because=f"The champion answers: {found.label.replace('_', ' ')}, {found.uri}.")
    if found.because:
        log.info("%s", found.because)
    return found


def _because(found: FoundModel) -> str:
    """Return why this calibrator answers, and not another one of its run."""
    store, (negatives, _, name) = open_store(), found.label.rpartition(".")
    run_id = store.model(found.model_id).run_id or ""
    audited = CALIBRATION_AUDIT.path in (store.known(run_id).tags.artifacts or {})
    audits = store.load(run_id, CALIBRATION_AUDIT) if audited else {}
    return answers_because(audits.get(negatives, {})) or (
        f"The calibrator {name.replace('_', ' ')} answers: the first one of its run with "
        f"{negatives.replace('_', ' ')} negatives."
    )


def locate(ask: Ask) -> Located:
    """Return the place of the calibrated model that a choice names.

    Raises InputError if there is no such model, or if `ask.calibrator` is given although the model already is a
    calibrator.
    """
    store, model, calibrator = open_store(), ask.model, ask.calibrator
    if not model:
        name = dataset_name(ask.dataset) if ask.dataset else _newest_dataset(store)
        champion = aliased(store, name, CHAMPION)
        if champion is not None and not calibrator:
            return Located(champion.model_id, champion.uri)
        model = _newest_calibration(store, name)
    if model.startswith("models:/"):
        if calibrator:
            raise InputError(f"the model {model} already is a calibrator: leave out --calibrator {calibrator}")
        return Located(model_of_uri(store, model), model)
    is_ensemble = named_run(store, model).tags.stage == ENSEMBLE_NAME
    run_id = resolve(ENSEMBLE_NAME if is_ensemble else "calibrate", model).run_id
    model_id = _calibrator_of(store, run_id, calibrator)
    return Located(model_id, f"models:/{model_id}")


def load(model: str = "", dataset: str = "", calibrator: str = "") -> LoadedModel:
    """Return a calibrated model of the store, which answers as one from `kgcore.load` does.

    model, dataset, calibrator  as in `Ask`; `model` may be the URI models:/kgcal-NAME@champion

    Raises InputError as `find_calibrated_model` does.
    """
    return LoadedModel(find_calibrated_model(Ask(model, dataset, calibrator)).model)


def read_located(located: Located) -> FoundModel:
    """Read a calibrated model from the store. Raises InputError if the model has no calibrator."""
    store = open_store()
    record = store.model(located.model_id)
    if not record.label:
        raise InputError(f"the model {located.uri} has no calibrator: name a calibrator, a calibrate run or a pipeline")
    return FoundModel(located, record.params["dataset"], record.label, load_calibrated(store, located.model_id))


def _calibrator_of(store: Store, run_id: str, label: str) -> str:
    """Return the id of the LoggedModel of a calibrator in a calibrate run, or of an ensemble in an ensemble's run."""
    labels = {store.model(model_id).label: model_id for model_id in store.get(run_id).model_ids}
    if label:
        if label not in labels:
            raise InputError(f"run {run_id} has no calibrator {label!r}: it has {', '.join(labels)}")
        return labels[label]
    for negatives in ("ground_truth", "candidates", "synthetic"):
        for name, model_id in labels.items():
            if name.startswith(f"{negatives}."):
                return model_id
    raise InputError(f"run {run_id} has no calibrator: run `kgcal calibrate`")


def _newest_dataset(store: Store) -> str:
    """Return the name of the data set of the newest finished pipeline."""
    prepared = store.load(newest_pipeline(store), MANIFEST)["prepare"]
    return store.get(prepared).dataset.name


def _newest_calibration(store: Store, dataset: str) -> str:
    """Return the id of the newest finished calibrate run on a data set."""
    prepared = store.find_all(RunTags(stage="prepare", dataset=dataset))
    runs = [run for one in prepared for run in store.find(RunTags(stage="calibrate", inputs={"prepare": one.run_id}))]
    if not runs:
        raise InputError(
            f"{dataset} has neither a champion nor a finished run: run `kgcal run --dataset {dataset}` first"
        )
    return max(runs, key=lambda run: run.started).run_id
