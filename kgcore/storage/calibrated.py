"""A calibrated model as a folder: the calibrator, the embedding models, and the graph with names and known facts.

A model's tables are safetensors. Torch, SciPy and scikit-learn take seconds to load: the functions import what they
need, and the module does not.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from kgcore.errors import InputError, KgcalError, MismatchError, first_line
from kgcore.storage.graph import read_graph
from kgcore.storage.json_file import read_json, write_json

if TYPE_CHECKING:
    from kgcore.calibrated import CalibratedModel
    from kgcore.calibration.calibrated import Calibrated
    from kgcore.external.calibrator import ScoreCalibrator
    from kgcore.models.trained import TrainedModel

CALIBRATOR_FILE, SCORE_CALIBRATOR_FILE = "calibrator.json", "score_calibrator.json"
MODEL_PART, GRAPH_PART = "model", "graph"  # folders; further models are model_2, model_3, ...
_MODEL_FILES = ("model.json", "embeddings.safetensors")
_GRAPH_FILES = ("graph.json", *(f"{name}.parquet" for name in ("entities", "predicates", "train", "valid", "test")))


def parts_of(models: int) -> list[str]:
    """Return the names of the folders of `models` embedding models, in their order."""
    return [MODEL_PART, *(f"{MODEL_PART}_{number}" for number in range(2, models + 1))]


def write_model(folder: Path, trained: "TrainedModel") -> None:
    """Write embeddings.safetensors (all tables) and model.json (parameters and fingerprint) to the folder."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tables = {"entities": trained.embeddings.entities, "predicates": trained.embeddings.predicates}
    tables |= {f"shared.{name}": tensor for name, tensor in trained.embeddings.shared.items()}
    parameters = {"model": trained.name, "k": trained.k, "options": dict(trained.options)}
    parameters |= {"inverse": True} if trained.inverse else {}
    if cohort := trained.cohort:
        tables |= {f"cohort.{name}": torch.from_numpy(getattr(cohort, name)) for name in ("members", "starts")}
        parameters["cohort"] = {"weight": cohort.weight, "temperature": cohort.temperature}
    save_file({name: table.contiguous() for name, table in tables.items()}, folder / "embeddings.safetensors")
    write_json(folder / "model.json", parameters | {"fingerprint": trained.fingerprint()})


def read_model(folder: Path) -> "TrainedModel":
    """Read the output of `write_model`."""
    from safetensors.torch import load_file

    from kgcore.models.base import Embeddings
    from kgcore.models.cohort import Cohort
    from kgcore.models.trained import TrainedModel

    parameters, tables = read_json(folder / "model.json"), load_file(folder / "embeddings.safetensors")
    entities, predicates = tables.pop("entities"), tables.pop("predicates")
    cohort = None
    if weights := parameters.get("cohort"):
        members, starts = (tables.pop(f"cohort.{name}").numpy() for name in ("members", "starts"))
        cohort = Cohort(weights["weight"], weights["temperature"], members, starts)
    shared = {name.removeprefix("shared."): tensor for name, tensor in tables.items()}
    embeddings = Embeddings(entities, predicates, shared)
    name, k, options = (parameters[key] for key in ("model", "k", "options"))
    return TrainedModel(name, k, embeddings, options, parameters.get("inverse", False), cohort)


def write_calibrator(folder: Path, bound: "Calibrated") -> None:
    """Write calibrator.json to the folder."""
    write_json(folder / CALIBRATOR_FILE, bound.to_json())


def read_calibrator(folder: Path) -> "Calibrated":
    """Read the output of `write_calibrator`."""
    from kgcore.calibration.calibrated import Calibrated

    return Calibrated.from_json(read_json(folder / CALIBRATOR_FILE))


def write_score_calibrator(folder: Path, calibrator: "ScoreCalibrator") -> None:
    """Write score_calibrator.json to the folder."""
    write_json(folder / SCORE_CALIBRATOR_FILE, calibrator.to_json())


def read_score_calibrator(folder: Path) -> "ScoreCalibrator":
    """Read the output of `write_score_calibrator`."""
    from kgcore.external.calibrator import ScoreCalibrator

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


def read_calibrated(folder: Path, elsewhere: Mapping[str, Path] = MappingProxyType({})) -> "CalibratedModel":
    """Read a calibrated model from a folder that has all parts: see `missing_parts`.

    elsewhere  part -> folder, for parts that are in other places, such as `graph`

    Raises InputError if a file is missing or damaged, and MismatchError if the calibrator was fitted to another model
    or another graph.
    """
    from kgcore.calibrated import CalibratedModel

    with _reading(folder):
        calibrator = read_calibrator(folder)
        parts = parts_of(len(calibrator.embedding_models))
        models = [read_model(elsewhere.get(part, folder / part)) for part in parts]
        graph = read_graph(elsewhere.get(GRAPH_PART, folder / GRAPH_PART))
    for expected, model in zip(calibrator.embedding_models, models, strict=True):
        _check(folder, "model", expected, model.fingerprint())
    _check(folder, "graph", calibrator.dataset, graph.fingerprint())
    return CalibratedModel(calibrator.scorer_of(models, graph), calibrator, graph)


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
