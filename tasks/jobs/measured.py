"""What an evaluation measured: the evaluate run of a pipeline, or the run of an ensemble."""

from tasks.tracking.artifacts import ENSEMBLE_SUMMARY, SUMMARY
from tasks.tracking.labels import ENSEMBLE_NAME
from tasks.tracking.store import Store


def measured_models(store: Store, run_id: str) -> tuple[str, ...]:
    """Return the ids of the LoggedModels that a run measured: calibrators, or ensembles."""
    run = store.known(run_id)
    return run.model_ids if run.tags.stage == ENSEMBLE_NAME else store.known(run.tags.inputs["calibrate"]).model_ids


def miscalibration(store: Store, run_id: str, label: str) -> str:
    """Return a sentence if a run measured a calibration error above the tolerance; '' if it did not.

    label  of the calibrator or the ensemble

    Raises InputError if the summary of the run is missing.
    """
    ensemble = store.known(run_id).tags.stage == ENSEMBLE_NAME
    summary = store.load(run_id, ENSEMBLE_SUMMARY) if ensemble else store.load(run_id, SUMMARY)
    return summary.miscalibrated.get(label, "")
