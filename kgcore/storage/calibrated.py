"""A calibrated model as a folder: the calibrator, the embedding model, and the graph with names and known facts.

An ensemble has the file of the ensemble in place of the calibrator, and an embedding model for each member. A
calibrator that sees the scores of further models has these models beside its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from safetensors import SafetensorError

from kgcore.calibrated import CalibratedModel, scorer_of
from kgcore.calibration.bound import BoundCalibrator
from kgcore.ensembles.ensemble import Ensemble
from kgcore.ensembles.pooled import PooledModel
from kgcore.errors import InputError, KgcalError, MismatchError, first_line
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.storage.graph import read_graph
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.model import read_model
from kgcore.storage.names import (
    CALIBRATOR_FILE,
    ENSEMBLE_FILE,
    GRAPH_PART,
    MODEL_PART,
    SCORE_CALIBRATOR_FILE,
    parts_of,
)

_MODEL_FILES = ("model.json", "embeddings.safetensors")
_GRAPH_FILES = ("graph.json", *(f"{name}.parquet" for name in ("entities", "predicates", "train", "valid", "test")))


def write_calibrator(folder: Path, bound: BoundCalibrator) -> None:
    """Write calibrator.json to the folder."""
    write_json(folder / CALIBRATOR_FILE, bound.to_json())


def read_calibrator(folder: Path) -> BoundCalibrator:
    """Read the output of `write_calibrator`."""
    return BoundCalibrator.from_json(read_json(folder / CALIBRATOR_FILE))


def write_score_calibrator(folder: Path, calibrator: ScoreCalibrator) -> None:
    """Write score_calibrator.json to the folder."""
    write_json(folder / SCORE_CALIBRATOR_FILE, calibrator.to_json())


def read_score_calibrator(folder: Path) -> ScoreCalibrator:
    """Read the output of `write_score_calibrator`."""
    return ScoreCalibrator.from_json(read_json(folder / SCORE_CALIBRATOR_FILE))


def write_ensemble(folder: Path, ensemble: Ensemble, models: Sequence[str]) -> None:
    """Write ensemble.json to the folder.

    models  (m) MLflow's ids of the members' embedding models
    """
    write_json(folder / ENSEMBLE_FILE, {"models": list(models), "ensemble": ensemble.to_json()})


def read_ensemble(folder: Path) -> tuple[list[str], Ensemble]:
    """Read the output of `write_ensemble`: the ids of the models, and the ensemble."""
    data = read_json(folder / ENSEMBLE_FILE)
    return data["models"], Ensemble.from_json(data["ensemble"])


def missing_parts(folder: Path) -> list[str]:
    """Return which parts of a calibrated model are not in the folder, or not with all of their files.

    The parts are calibrator.json or ensemble.json, the folders of the embedding models, and graph. Raises InputError
    for a damaged file.
    """
    if not any((folder / name).is_file() for name in (CALIBRATOR_FILE, ENSEMBLE_FILE)):
        return [CALIBRATOR_FILE, *(_incomplete(folder, MODEL_PART)), *(_incomplete(folder, GRAPH_PART))]
    with _reading(folder):
        is_ensemble = (folder / ENSEMBLE_FILE).is_file()
        models = read_ensemble(folder)[1].members if is_ensemble else read_calibrator(folder).embedding_models
    return [name for part in (*parts_of(len(models), is_ensemble), GRAPH_PART) for name in _incomplete(folder, part)]


def _incomplete(folder: Path, part: str) -> list[str]:
    files = _GRAPH_FILES if part == GRAPH_PART else _MODEL_FILES
    return [] if all((folder / part / name).is_file() for name in files) else [part]


def read_calibrated(folder: Path, elsewhere: Mapping[str, Path] = MappingProxyType({})) -> CalibratedModel:
    """Read a calibrated model from a folder that has all parts: see `missing_parts`.

    elsewhere  part -> folder, for parts that are in other places, such as `graph`

    Raises InputError if a file is missing or damaged, and MismatchError if the calibrator was fitted to another model
    or another graph.
    """
    with _reading(folder):
        ensemble = read_ensemble(folder)[1] if (folder / ENSEMBLE_FILE).is_file() else None
        calibrator = ensemble.recalibrated if ensemble else read_calibrator(folder)
        fitted_to = ensemble.pooling.models if ensemble else calibrator.embedding_models
        parts = parts_of(len(fitted_to), is_ensemble=ensemble is not None)
        members = tuple(read_model(elsewhere.get(part, folder / part)) for part in parts)
        graph = read_graph(elsewhere.get(GRAPH_PART, folder / GRAPH_PART))
    for expected, member in zip(fitted_to, members, strict=True):
        _check(folder, "model", expected, member.fingerprint())
    _check(folder, "graph", calibrator.dataset, graph.fingerprint())
    if ensemble:
        return CalibratedModel(PooledModel(ensemble.pooling, members), calibrator, graph)
    return CalibratedModel(scorer_of(calibrator, members[0], graph, members[1:]), calibrator, graph)


@contextmanager
def _reading(folder: Path) -> Iterator[None]:
    """Raise InputError for every error of a file of a calibrated model."""
    try:
        yield
    except KgcalError:
        raise
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise InputError(f"the calibrated model in {folder} cannot be read: {first_line(error)}") from error


def _check(folder: Path, what: str, expected: str, found: str) -> None:
    if found != expected:
        raise MismatchError(
            f"the calibrator in {folder} was fitted to the {what} {expected[:12]}, but the {what} there is "
            f"{found[:12]}: use the files of one logged model"
        )
