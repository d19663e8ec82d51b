"""A calibrated model as a folder: the calibrator, the embedding model, and the graph with names and known facts."""

from pathlib import Path

from safetensors import SafetensorError

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.bound import BoundCalibrator
from kgcore.errors import InputError, KgcalError, MismatchError, first_line
from kgcore.storage.graph import read_graph, write_graph
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.model import read_model, write_model

CALIBRATOR_FILE = "calibrator.json"
MODEL_FOLDER, GRAPH_FOLDER = "model", "graph"
_MODEL_FILES = ("model.json", "embeddings.safetensors")
_GRAPH_FILES = ("graph.json", *(f"{name}.parquet" for name in ("entities", "predicates", "train", "valid", "test")))
_NEEDED = (
    CALIBRATOR_FILE,
    *(f"{MODEL_FOLDER}/{name}" for name in _MODEL_FILES),
    *(f"{GRAPH_FOLDER}/{name}" for name in _GRAPH_FILES),
)


def write_calibrator(folder: Path, bound: BoundCalibrator) -> None:
    """Write calibrator.json to the folder."""
    write_json(folder / CALIBRATOR_FILE, bound.to_json())


def read_calibrator(folder: Path) -> BoundCalibrator:
    """Read the output of `write_calibrator`."""
    return BoundCalibrator.from_json(read_json(folder / CALIBRATOR_FILE))


def write_calibrated(folder: Path, model: CalibratedModel) -> None:
    """Write calibrator.json, the embedding model to model/ and the graph to graph/."""
    write_calibrator(folder, model.calibrator)
    write_model(folder / MODEL_FOLDER, model.trained)
    write_graph(folder / GRAPH_FOLDER, model.graph)


def missing_parts(folder: Path) -> list[str]:
    """Return which of calibrator.json, model and graph are not in the folder, or not with all of their files."""
    return list(dict.fromkeys(name.split("/")[0] for name in _NEEDED if not (folder / name).is_file()))


def read_calibrated(folder: Path, model: Path | None = None, graph: Path | None = None) -> CalibratedModel:
    """Read the output of `write_calibrated`.

    model, graph  folders of the embedding model and of the graph, if they are in other places

    Raises InputError if a file is missing or damaged, and MismatchError if the calibrator was fitted to another model
    or another graph.
    """
    try:
        calibrator = read_calibrator(folder)
        trained = read_model(model or folder / MODEL_FOLDER)
        known = read_graph(graph or folder / GRAPH_FOLDER)
    except KgcalError:
        raise
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise InputError(f"the calibrated model in {folder} cannot be read: {first_line(error)}") from error
    found = {"model": trained.fingerprint(), "graph": known.fingerprint()}
    for what, fitted_to in (("model", calibrator.model), ("graph", calibrator.dataset)):
        if found[what] != fitted_to:
            raise MismatchError(
                f"the calibrator in {folder} was fitted to the {what} {fitted_to[:12]}, but the {what} there is "
                f"{found[what][:12]}: use the files of one logged model"
            )
    return CalibratedModel(trained, calibrator, known)
