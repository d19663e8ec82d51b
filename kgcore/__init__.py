"""kgcal's library: knowledge graph embeddings, and the calibration that turns their scores into probabilities.

The library is pure and typed: no prefect, no mlflow, no environment variables, no global state. Read it in the order of
the pipeline: graph, datasets, models, losses, corruptions, training, score_table, score_search, ranking, calibration,
metrics, evaluation, prediction, report. `kgcore.load(folder)` loads a calibrated model that answers.
"""

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgcore.answer.loaded import LoadedModel


def load(folder: "str | PathLike[str]") -> "LoadedModel":
    """Load a calibrated model from the folder of a logged model. See `kgcore.answer.loaded.load_folder`."""
    from kgcore.answer.loaded import load_folder  # imported here because it loads torch, which is slow

    return load_folder(folder)
