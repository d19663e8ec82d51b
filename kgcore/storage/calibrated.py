"""Calibrators and embedding models as folders, and the names of the parts of a calibrated model.

A model's tables are safetensors. Torch, SciPy and scikit-learn take seconds to load: the functions import what they
need, and the module does not.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from kgcore.storage.json_file import read_json, write_json

if TYPE_CHECKING:
    from kgcore.calibrate.calibrated import Calibrated
    from kgcore.embed.models.trained import TrainedModel

CALIBRATOR_FILE = "calibrator.json"
MODEL_PART, GRAPH_PART = "model", "graph"  # folders; further models are model_2, model_3, ...


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

    from kgcore.embed.models.base import Embeddings
    from kgcore.embed.models.cohort import Cohort
    from kgcore.embed.models.trained import TrainedModel

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
    from kgcore.calibrate.calibrated import Calibrated

    return Calibrated.from_json(read_json(folder / CALIBRATOR_FILE))
