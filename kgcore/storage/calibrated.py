"""A calibrated model as a folder: the calibrator, the embedding model, and the graph with names and known facts.

An ensemble has the file of the ensemble in place of the calibrator, and an embedding model for each member. A
calibrator that sees the scores of further models has these models beside its own. A model's tables are safetensors.

Torch, SciPy and scikit-learn take seconds to load. Therefore the functions import what they need, and the module does
not.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    from kgcore.calibration.bound import BoundCalibrator
    from kgcore.ensembles.ensemble import Ensemble
    from kgcore.external.calibrator import ScoreCalibrator
    from kgcore.models.trained import TrainedModel

CALIBRATOR_FILE, ENSEMBLE_FILE = "calibrator.json", "ensemble.json"
SCORE_CALIBRATOR_FILE = "score_calibrator.json"
# folders; the models of an ensemble are model_1, model_2, ..., and further models of a calibrator model_2, model_3, ...
MODEL_PART, GRAPH_PART = "model", "graph"
_MODEL_FILES = ("model.json", "embeddings.safetensors")
_GRAPH_FILES = ("graph.json", *(f"{name}.parquet" for name in ("entities", "predicates", "train", "valid", "test")))


def parts_of(models: int, is_ensemble: bool) -> list[str]:
    """Return the names of the folders of so many embedding models, in their order."""
    names = [f"{MODEL_PART}_{number}" for number in range(1, models + 1)]
    return names if is_ensemble else [MODEL_PART, *names[1:]]


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


def write_calibrator(folder: Path, bound: "BoundCalibrator") -> None:
    """Write calibrator.json to the folder."""
    write_json(folder / CALIBRATOR_FILE, bound.to_json())


def read_calibrator(folder: Path) -> "BoundCalibrator":
    """Read the output of `write_calibrator`."""
    from kgcore.calibration.bound import BoundCalibrator

    return BoundCalibrator.from_json(read_json(folder / CALIBRATOR_FILE))


def write_score_calibrator(folder: Path, calibrator: "ScoreCalibrator") -> None:
    """Write score_calibrator.json to the folder."""
    write_json(folder / SCORE_CALIBRATOR_FILE, calibrator.to_json())


def read_score_calibrator(folder: Path) -> "ScoreCalibrator":
    """Read the output of `write_score_calibrator`."""
    from kgcore.external.calibrator import ScoreCalibrator

    return ScoreCalibrator.from_json(read_json(folder / SCORE_CALIBRATOR_FILE))


def write_ensemble(folder: Path, logged: "tuple[Sequence[str], Ensemble]") -> None:
    """Write ensemble.json to the folder: MLflow's ids (m) of the members' embedding models, and the ensemble."""
    models, ensemble = logged
    write_json(folder / ENSEMBLE_FILE, {"models": list(models), "ensemble": ensemble.to_json()})


def read_ensemble(folder: Path) -> "tuple[list[str], Ensemble]":
    """Read the output of `write_ensemble`: the ids of the models, and the ensemble."""
    from kgcore.ensembles.ensemble import Ensemble

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


def read_calibrated(folder: Path, elsewhere: Mapping[str, Path] = MappingProxyType({})) -> "CalibratedModel":
    """Read a calibrated model from a folder that has all parts: see `missing_parts`.

    elsewhere  part -> folder, for parts that are in other places, such as `graph`

    Raises InputError if a file is missing or damaged, and MismatchError if the calibrator was fitted to another model
    or another graph.
    """
    from kgcore.calibrated import CalibratedModel, scorer_of
    from kgcore.ensembles.pooled import PooledModel

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
