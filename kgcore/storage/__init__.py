"""Functions that read and write artifacts in fixed formats, without pickle.

Tables are parquet, tensors are safetensors, parameters are JSON, and the trials of a search are CSV. Each kind of
artifact has its own module. Its `write_` function stores an object at a path, and its `read_` function returns an equal
object.

A module is loaded when one of its functions is first used: most of them load SciPy and scikit-learn, which takes half a
second, and a pipeline that only re-uses finished runs reads JSON alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kgcore.storage.json_file import FORMAT, read_json, write_json
from kgcore.storage.names import (
    CALIBRATOR_FILE,
    GRAPH_PART,
    MODEL_PART,
    SCORE_CALIBRATOR_FILE,
    parts_of,
)

if TYPE_CHECKING:
    from kgcore.storage.calibrated import (
        missing_parts,
        read_calibrated,
        read_calibrator,
        read_score_calibrator,
        write_calibrator,
        write_score_calibrator,
    )
    from kgcore.storage.corruptions import read_corruptions, write_corruptions
    from kgcore.storage.disagreement import read_disagreement, write_disagreement
    from kgcore.storage.evidence import read_evidence, read_log_odds, write_evidence, write_log_odds
    from kgcore.storage.graph import read_graph, read_names, write_graph
    from kgcore.storage.measured import read_measured, write_measured
    from kgcore.storage.mixture import read_matched, read_mixture, write_matched, write_mixture
    from kgcore.storage.model import read_model, write_model
    from kgcore.storage.predictions import read_predictions, write_predictions
    from kgcore.storage.ranks import read_ranks, write_ranks
    from kgcore.storage.scores import read_scores, write_scores
    from kgcore.storage.trials import read_trials, write_trials
    from kgcore.storage.triples import read_triples, write_triples
    from kgcore.storage.unseen import (
        read_answers,
        read_unseen,
        read_unseen_answers,
        write_answers,
        write_unseen,
        write_unseen_answers,
    )

# module -> the functions that are loaded from it
_FUNCTIONS = {
    "calibrated": (
        "missing_parts",
        "read_calibrated",
        "read_calibrator",
        "read_score_calibrator",
        "write_calibrator",
        "write_score_calibrator",
    ),
    "corruptions": ("read_corruptions", "write_corruptions"),
    "disagreement": ("read_disagreement", "write_disagreement"),
    "evidence": ("read_evidence", "read_log_odds", "write_evidence", "write_log_odds"),
    "graph": ("read_graph", "read_names", "write_graph"),
    "measured": ("read_measured", "write_measured"),
    "mixture": ("read_matched", "read_mixture", "write_matched", "write_mixture"),
    "model": ("read_model", "write_model"),
    "predictions": ("read_predictions", "write_predictions"),
    "ranks": ("read_ranks", "write_ranks"),
    "scores": ("read_scores", "write_scores"),
    "trials": ("read_trials", "write_trials"),
    "triples": ("read_triples", "write_triples"),
    "unseen": (
        "read_answers",
        "read_unseen",
        "read_unseen_answers",
        "write_answers",
        "write_unseen",
        "write_unseen_answers",
    ),
}
_MODULES = {name: module for module, names in _FUNCTIONS.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a function of this package. Python calls it for a name that the package does not have yet."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = [
    "CALIBRATOR_FILE",
    "FORMAT",
    "GRAPH_PART",
    "MODEL_PART",
    "SCORE_CALIBRATOR_FILE",
    "missing_parts",
    "parts_of",
    "read_answers",
    "read_calibrated",
    "read_calibrator",
    "read_corruptions",
    "read_disagreement",
    "read_evidence",
    "read_graph",
    "read_json",
    "read_log_odds",
    "read_matched",
    "read_measured",
    "read_mixture",
    "read_model",
    "read_names",
    "read_predictions",
    "read_ranks",
    "read_score_calibrator",
    "read_scores",
    "read_trials",
    "read_triples",
    "read_unseen",
    "read_unseen_answers",
    "write_answers",
    "write_calibrator",
    "write_corruptions",
    "write_disagreement",
    "write_evidence",
    "write_graph",
    "write_json",
    "write_log_odds",
    "write_matched",
    "write_measured",
    "write_mixture",
    "write_model",
    "write_predictions",
    "write_ranks",
    "write_score_calibrator",
    "write_scores",
    "write_trials",
    "write_triples",
    "write_unseen",
    "write_unseen_answers",
]
