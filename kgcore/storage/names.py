"""The names of the files and folders of a stored model."""

CALIBRATOR_FILE, SCORE_CALIBRATOR_FILE = "calibrator.json", "score_calibrator.json"
MODEL_PART, GRAPH_PART = "model", "graph"  # folders; further models are model_2, model_3, ...


def parts_of(models: int) -> list[str]:
    """Return the names of the folders of `models` embedding models, in their order."""
    return [MODEL_PART, *(f"{MODEL_PART}_{number}" for number in range(2, models + 1))]
