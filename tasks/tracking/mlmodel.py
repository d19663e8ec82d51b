"""Makes a calibrator's LoggedModel an MLflow pyfunc: the files by which MLflow loads and serves it.

docs/decisions/0008-pyfunc.md says which files each LoggedModel has, and why.
"""

import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from kgcore.calibration.bound import BoundCalibrator
from kgcore.config import PredictConfig
from kgcore.datasets.read import COLUMNS
from kgcore.storage import GRAPH_FOLDER, MODEL_FOLDER
from tasks.tracking.artifacts import CALIBRATOR, GRAPH
from tasks.tracking.registry import calibrator_inputs
from tasks.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

LOADER = "tasks.tracking.pyfunc"
EXAMPLES = 3  # triples of the input example
# The packages that compute or read an answer. `kgcal` itself brings the others.
PACKAGES = ("kgcal", "mlflow", "numpy", "pandas", "pyarrow", "safetensors", "scikit-learn", "scipy", "torch")
OUTPUTS = {
    **dict.fromkeys(COLUMNS, "string"),
    **dict.fromkeys(("score", "probability", "low", "high"), "double"),
    **dict.fromkeys(("decision", "known"), "boolean"),
    "reason": "string",
}


def log_pyfunc(store: Store, model_id: str, bound: BoundCalibrator, examples: Sequence[Sequence[str]]) -> None:
    """Add the files that make a calibrator's LoggedModel a pyfunc, without the embedding model and the graph.

    examples  triples of names, at least one
    """
    inputs = calibrator_inputs(store, model_id)
    [base] = store.get(inputs["train"]).model_ids
    places = {MODEL_FOLDER: f"models:/{base}", GRAPH_FOLDER: f"runs:/{inputs['prepare']}/{GRAPH.path}"}
    example = pd.DataFrame(examples, columns=list(COLUMNS))
    store.add_model_files(
        model_id, lambda folder: _write(folder, model_id, inputs["calibrate"], bound, places, example)
    )


def complete_model(store: Store, model_id: str) -> None:
    """Copy the embedding model and the graph into a calibrator's LoggedModel, which then needs no other files.

    Files that are there already are not copied again. A LoggedModel of an earlier version becomes a pyfunc.

    Raises InputError if the calibrator, its embedding model or its graph no longer exists.
    """
    inputs = calibrator_inputs(store, model_id)
    [base] = store.get(inputs["train"]).model_ids
    prepared, present = inputs["prepare"], store.model_sizes(model_id)
    if "MLmodel" not in present:
        graph = store.load(prepared, GRAPH)
        examples = graph.names_of(graph.valid.positives[:EXAMPLES]).to_numpy().tolist()
        log_pyfunc(store, model_id, store.load_model(model_id, CALIBRATOR), examples)
    needed = {f"{MODEL_FOLDER}/{path}": size for path, size in store.model_sizes(base).items()}
    needed |= {path: size for path, size in store.sizes(prepared).items() if path.startswith(f"{GRAPH.path}/")}
    if needed.items() <= present.items():
        return

    def write(folder: Path) -> None:
        (folder / MODEL_FOLDER).mkdir()
        store.copy_model(folder / MODEL_FOLDER, base)
        store.copy(folder, prepared, GRAPH.path)

    store.add_model_files(model_id, write)


def _write(
    folder: Path,
    model_id: str,
    run_id: str,
    bound: BoundCalibrator,
    places: Mapping[str, str],
    example: pd.DataFrame,
) -> None:
    """Write MLmodel, the pinned requirements and the input example to an empty folder."""
    import mlflow.pyfunc
    from mlflow.models import Model

    with tempfile.TemporaryDirectory() as parent:
        mlflow.pyfunc.save_model(
            Path(parent) / "pyfunc",
            loader_module=LOADER,
            signature=_signature(bound),
            input_example=example,
            pip_requirements=requirements(),
            model_config=dict(places),
            mlflow_model=Model(model_id=model_id, run_id=run_id),
        )
        for file in (Path(parent) / "pyfunc").iterdir():
            file.rename(folder / file.name)


def _signature(bound: BoundCalibrator) -> "ModelSignature":
    """Return the columns that the pyfunc reads and writes, and its parameters with their defaults."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    params = (
        ParamSpec("base_rate", "double", bound.base_rate),
        ParamSpec("threshold", "double", PredictConfig.threshold),
        ParamSpec("at_least", "long", PredictConfig.at_least),
    )
    return ModelSignature(
        inputs=Schema([ColSpec("string", name) for name in COLUMNS]),
        outputs=Schema([ColSpec(kind, name, required=name in COLUMNS) for name, kind in OUTPUTS.items()]),
        params=ParamSchema(list(params)),
    )


def requirements() -> list[str]:
    """Return the installed versions of PACKAGES as requirements. A local version such as 2.13.0+cpu loses its end."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name}=={version(name).partition('+')[0]}")
        except PackageNotFoundError:  # kgcal runs from a checkout that is not installed
            continue
    return found
