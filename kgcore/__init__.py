"""kgcal's library: knowledge graph embeddings, and the calibration that turns their scores into probabilities.

Four functions are all that a script needs: `read` a graph, `train` a model, `calibrate` it, `load` what it has saved.
They stand in library.py, with examples. The library is pure and typed: no prefect, no mlflow, no environment variables,
no global state. Read its rooms in the order in which a triple passes through them:

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kgcore.library import calibrate, load, read, train

__all__ = ["calibrate", "load", "read", "train"]

import_module("kgcore.calibrate")  # sets the attribute `calibrate`, only now: later it is the function
del globals()["calibrate"]


def __getattr__(name: str) -> Any:
    """Return a function of library.py, which loads torch: that takes a second."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module("kgcore.library"), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"kgcore.{name} needs {error.name}: pip install 'kgcal[train]'") from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
