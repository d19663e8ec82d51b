"""The names of the files and folders of a stored model."""

CALIBRATOR_FILE, ENSEMBLE_FILE = "calibrator.json", "ensemble.json"
SCORE_CALIBRATOR_FILE = "score_calibrator.json"
# folders; the models of an ensemble are model_1, model_2, ..., and further models of a calibrator model_2, model_3, ...
MODEL_PART, GRAPH_PART = "model", "graph"


def parts_of(models: int, is_ensemble: bool) -> list[str]:
    """Return the names of the folders of so many embedding models, in their order."""
    names = [f"{MODEL_PART}_{number}" for number in range(1, models + 1)]
    return names if is_ensemble else [MODEL_PART, *names[1:]]
