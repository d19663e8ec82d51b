"""A calibrated model as a folder: the calibrator, the embedding models, and the graph with names and known facts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from safetensors import SafetensorError

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.calibrated import Calibrated
from kgcore.ensembles.ensemble import scorer_of
from kgcore.errors import InputError, KgcalError, MismatchError, first_line
from kgcore.external.calibrator import ScoreCalibrator
from kgcore.storage.graph import read_graph
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.model import read_model
from kgcore.storage.names import (
    CALIBRATOR_FILE,
    GRAPH_PART,
    MODEL_PART,
    SCORE_CALIBRATOR_FILE,
    parts_of,
)

_MODEL_FILES = ("model.json", "embeddings.safetensors")
_GRAPH_FILES = ("graph.json", *(f"{name}.parquet" for name in ("entities", "predicates", "train", "valid", "test")))


def write_calibrator(folder: Path, bound: Calibrated) -> None:
    """Write calibrator.json to the folder."""
    write_json(folder / CALIBRATOR_FILE, bound.to_json())


def read_calibrator(folder: Path) -> Calibrated:
    """Read the output of `write_calibrator`."""
    return Calibrated.from_json(read_json(folder / CALIBRATOR_FILE))


def write_score_calibrator(folder: Path, calibrator: ScoreCalibrator) -> None:
    """Write score_calibrator.json to the folder."""
    write_json(folder / SCORE_CALIBRATOR_FILE, calibrator.to_json())


def read_score_calibrator(folder: Path) -> ScoreCalibrator:
    """Read the output of `write_score_calibrator`."""
    return ScoreCalibrator.from_json(read_json(folder / SCORE_CALIBRATOR_FILE))


def missing_parts(folder: Path) -> list[str]:
    """Return which parts of a calibrated model are not in the folder, or not with all of their files.

    The parts are calibrator.json, the folders of the embedding models, and graph. Raises InputError for a damaged file.
    """
    if not (folder / CALIBRATOR_FILE).is_file():
        return [CALIBRATOR_FILE, *(_incomplete(folder, MODEL_PART)), *(_incomplete(folder, GRAPH_PART))]
    with _reading(folder):
        models = read_calibrator(folder).embedding_models
    return [name for part in (*parts_of(len(models)), GRAPH_PART) for name in _incomplete(folder, part)]


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
        calibrator = read_calibrator(folder)
        parts = parts_of(len(calibrator.embedding_models))
        models = [read_model(elsewhere.get(part, folder / part)) for part in parts]
        graph = read_graph(elsewhere.get(GRAPH_PART, folder / GRAPH_PART))
    for expected, model in zip(calibrator.embedding_models, models, strict=True):
        _check(folder, "model", expected, model.fingerprint())
    _check(folder, "graph", calibrator.dataset, graph.fingerprint())
    return CalibratedModel(scorer_of(calibrator, models, graph), calibrator, graph)


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
