"""Makes the LoggedModel of a calibrator or an ensemble an MLflow pyfunc: the files by which MLflow loads and serves it.

docs/decisions/0008-pyfunc.md says which files each LoggedModel has, and why.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pandas as pd

from kgcore.config import PredictConfig
from kgcore.data.formats.base import COLUMNS
from kgcore.data.graph import KnowledgeGraph
from kgcore.storage.folders import GRAPH_PART, parts_of
from tasks.tracking.artifacts import GRAPH, SCORE_CALIBRATOR
from tasks.tracking.record import RunRecord
from tasks.tracking.registry import Sources, sources_of
from tasks.tracking.store import Store
from tasks.workspace.settings import temporary_folder

if TYPE_CHECKING:
    from mlflow.models import ModelSignature

    from kgcore.wings.external.calibrator import ScoreCalibrator

LOADER = "kgcal.pyfunc"
EXAMPLES = 3  # triples of the input example
# The packages that compute or read an answer. `kgcal[train]` brings the others.
PACKAGES = (
    *("kgcal[train]", "lightgbm", "mlflow", "numpy", "pandas", "pyarrow"),
    *("safetensors", "scikit-learn", "scipy", "torch"),
)
_LOCK = Lock()  # one thread at a time changes MLflow's function: `_unchecked_requirements`
OUTPUTS = {
    **dict.fromkeys(COLUMNS, "string"),
    **dict.fromkeys(("score", "probability", "low", "high"), "double"),
    **dict.fromkeys(("decision", "known"), "boolean"),
    **dict.fromkeys(("unseen", "reason"), "string"),
}


def log_pyfunc(store: Store, model_id: str, run: RunRecord, examples: Sequence[Sequence[str]]) -> None:
    """Add the files that make a LoggedModel a pyfunc, without the embedding models and the graph.

    run       the run that logged it
    examples  triples of names, at least one
    """
    sources, settings = sources_of(store, model_id, run), PredictConfig.model_fields
    places = {part: f"models:/{base}" for part, base in _models(sources).items()}
    places[GRAPH_PART] = f"runs:/{sources.graph}/{GRAPH.path}"
    signature = _signature(
        inputs=dict.fromkeys(COLUMNS, ("string", True)),
        outputs={name: (kind, name in COLUMNS) for name, kind in OUTPUTS.items()},
        params={
            "base_rate": ("double", None),  # a base rate that is given is that of the rows
            "threshold": ("double", settings["threshold"].default),
            "at_least": ("long", settings["at_least"].default),
        },
    )
    _add_pyfunc(store, model_id, run.run_id, signature, pd.DataFrame(examples, columns=list(COLUMNS)), places)


def log_score_calibrator(
    store: Store, run_id: str, number: int, calibrator: "ScoreCalibrator", example: pd.DataFrame
) -> str:
    """Log a calibrator of scores as a LoggedModel, which is an MLflow pyfunc. Return its id.

    number   position among the models of the run, from 0
    example  rows that show how to ask it: columns score and, for a calibrator by relation, relation
    """
    from kgcore.wings.external.calibrator import RELATION, SCORE, SCORE_ANSWERS, SCORER

    bound = calibrator.bound
    named = {"scorer": calibrator.scorer, "scale": calibrator.scale}
    params = {"calibrator": bound.name, "negatives": bound.negatives, "base_rate": bound.base_rate, **named}
    tags = {"label": bound.label, "base_rate_is": bound.rate.origin, "scorer": calibrator.scorer}
    name = f"{calibrator.scorer}-{bound.label}"
    model_id = store.log_model(
        run_id, number, name, params, tags, lambda folder: SCORE_CALIBRATOR.write(folder, calibrator)
    )
    signature = _signature(
        inputs={
            SCORE: ("double", True),
            RELATION: ("string", calibrator.by_relation),
            SCORER: ("string", False),
        },
        outputs=dict.fromkeys(SCORE_ANSWERS, ("double", True)),
        params={"base_rate": ("double", bound.base_rate)},
    )
    _add_pyfunc(store, model_id, run_id, signature, example, {})
    return model_id


def _signature(
    inputs: Mapping[str, tuple[str, bool]],
    outputs: Mapping[str, tuple[str, bool]],
    params: Mapping[str, tuple[str, float | None]],
) -> "ModelSignature":
    """Return the columns that a pyfunc reads and writes, each with its kind and whether it must be there."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    read, written = (
        Schema([ColSpec(kind, name, required=needed) for name, (kind, needed) in columns.items()])
        for columns in (inputs, outputs)
    )
    asked = ParamSchema([ParamSpec(name, kind, default) for name, (kind, default) in params.items()])
    return ModelSignature(inputs=read, outputs=written, params=asked)


def _add_pyfunc(
    store: Store,
    model_id: str,
    run_id: str,
    signature: "ModelSignature",
    example: pd.DataFrame,
    places: Mapping[str, str],
) -> None:
    """Add MLmodel, the pinned requirements and the input example to a LoggedModel.

    places  part of the model -> URI from which the loader fetches it
    """
    import mlflow.pyfunc
    from mlflow.models import Model

    with temporary_folder() as parent:
        with _LOCK, _unchecked_requirements():
            mlflow.pyfunc.save_model(
                parent / "pyfunc",
                loader_module=LOADER,
                signature=signature,
                input_example=example,
                pip_requirements=list(requirements()),
                model_config=dict(places),
                mlflow_model=Model(model_id=model_id, run_id=run_id),
            )
        store.add_model_files(model_id, lambda folder: shutil.copytree(parent / "pyfunc", folder, dirs_exist_ok=True))


def complete_model(store: Store, model_id: str) -> None:
    """Copy the embedding models and the graph into a LoggedModel, which then needs no other files.

    Files that are there already are not copied again.

    Raises InputError if the calibrator or ensemble, an embedding model or the graph no longer exists.
    """
    sources, present = sources_of(store, model_id), store.model_sizes(model_id)
    models = _models(sources)
    needed = {f"{part}/{path}": size for part, base in models.items() for path, size in store.model_sizes(base).items()}
    needed |= {path: size for path, size in store.sizes(sources.graph).items() if path.startswith(f"{GRAPH.path}/")}
    if needed.items() <= present.items():
        return

    def write(folder: Path) -> None:
        for part, base in models.items():
            (folder / part).mkdir()
            store.copy_model(folder / part, base)
        store.copy(folder, sources.graph, GRAPH.path)

    store.add_model_files(model_id, write)


def example_triples(graph: KnowledgeGraph) -> list[list[str]]:
    """Return the names of the first validation positives, which show how to ask a model."""
    names: list[list[str]] = graph.names_of(graph.valid.positives[:EXAMPLES]).to_numpy().tolist()
    return names


def _models(sources: Sources) -> dict[str, str]:
    """Return the folder of each embedding model -> the id of its LoggedModel: kgcore/storage/folders.py."""
    return dict(zip(parts_of(len(sources.models)), sources.models, strict=True))


@contextmanager
def _unchecked_requirements() -> Iterator[None]:
    """Save models without MLflow's comparison of their requirements with the installed versions.

    `requirements` returns the installed versions. For the comparison, MLflow reads the lists of files of all installed
    packages, which takes most of the time.
    """
    from mlflow.utils import environment as mlflow_environment

    environment: Any = mlflow_environment
    check = environment.warn_dependency_requirement_mismatches
    environment.warn_dependency_requirement_mismatches = lambda _: None
    try:
        yield
    finally:
        environment.warn_dependency_requirement_mismatches = check


@cache
def requirements() -> tuple[str, ...]:
    """Return the installed versions of PACKAGES as requirements. A local version such as 2.13.0+cpu loses its end."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name}=={version(name.partition('[')[0]).partition('+')[0]}")
        except PackageNotFoundError:  # kgcal runs from a checkout that is not installed
            continue
    return tuple(found)
