"""kgcal's library: knowledge graph embeddings, and the calibration that turns their scores into probabilities.

The library is pure and typed: no prefect, no mlflow, no environment variables, no global state. `kgcore.load(folder)`
loads a calibrated model that answers. Read its rooms in the order in which a triple passes through them:

data       a file of triples becomes a graph: data/datasets/prepare.py makes a KnowledgeGraph (data/graph.py)
embed      a model is trained on the graph, and gives scores: embed/models, embed/training
scores     the scores of the held-out triples and their corruptions: scores/table.py
calibrate  a map from scores to probabilities: calibrate/fit.py makes every calibrated thing
evidence   what the graph knows of a triple beside its score; combiners/ turn evidence into one score, and
           combiners/fit.py fits all calibrators of a run
mixture    candidates without labels: which share of them is true, and calibration to them
measure    metrics, evaluation, reports
answer     questions to a calibrated model, each with the population of its candidates

config/ has the settings, registries.py the names of all components, storage/ the files, loops/ what Numba compiles.
wings/ has the capabilities beside this way.
"""

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgcore.answer.loaded import LoadedModel


def load(folder: "str | PathLike[str]") -> "LoadedModel":
    """Load a calibrated model from the folder of a logged model. See `kgcore.answer.loaded.load_folder`."""
    from kgcore.answer.loaded import load_folder  # imported here because it loads torch, which is slow

    return load_folder(folder)
