"""Makes the LoggedModel of a calibrator or an ensemble an MLflow pyfunc: the files by which MLflow loads and serves it.

docs/decisions/0008-pyfunc.md says which files each LoggedModel has, and why.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import pandas as pd

from kgcore.config import PredictConfig
from kgcore.datasets.formats.base import COLUMNS
from kgcore.graph import KnowledgeGraph
from kgcore.storage.calibrated import GRAPH_PART, parts_of
from tasks.tracking.artifacts import GRAPH, SCORE_CALIBRATOR
from tasks.tracking.record import RunRecord
from tasks.tracking.registry import Sources, sources_of
from tasks.tracking.store import Store

if TYPE_CHECKING:
    from mlflow.models import Model, ModelSignature

    from kgcore.external.calibrator import ScoreCalibrator

LOADER = "tasks.tracking.pyfunc"
EXAMPLES = 3  # triples of the input example
# The packages that compute or read an answer. `kgcal` itself brings the others.
PACKAGES = (
    *("kgcal", "lightgbm", "mlflow", "numpy", "pandas", "pyarrow"),
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
    from mlflow.models import Model

    sources = sources_of(store, model_id, run)
    places = {part: f"models:/{base}" for part, base in _models(sources).items()}
    places[GRAPH_PART] = f"runs:/{sources.graph}/{GRAPH.path}"
    example, record = pd.DataFrame(examples, columns=list(COLUMNS)), Model(model_id=model_id, run_id=run.run_id)
    store.add_model_files(model_id, lambda folder: _write_pyfunc(folder, _signature(), example, record, places))


def log_score_calibrator(
    store: Store, run_id: str, number: int, calibrator: "ScoreCalibrator", example: pd.DataFrame
) -> str:
    """Log a calibrator of scores as a LoggedModel, which is an MLflow pyfunc. Return its id.

    number   position among the models of the run, from 0
    example  rows that show how to ask it: columns score and, for a calibrator by relation, relation
    """
    from mlflow.models import Model

    bound = calibrator.bound
    named = {"scorer": calibrator.scorer, "scale": calibrator.scale}
    params = {"calibrator": bound.name, "negatives": bound.negatives, "base_rate": bound.base_rate, **named}
    tags = {"label": bound.label, "base_rate_is": bound.rate.origin, "scorer": calibrator.scorer}
    name = f"{calibrator.scorer}-{bound.label}"
    model_id = store.log_model(
        run_id, number, name, params, tags, lambda folder: SCORE_CALIBRATOR.write(folder, calibrator)
    )
    record, signature = Model(model_id=model_id, run_id=run_id), _signature_of_scores(calibrator)
    store.add_model_files(model_id, lambda folder: _write_pyfunc(folder, signature, example, record, {}))
    return model_id


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
    """Return the folder of each embedding model -> the id of its LoggedModel: kgcore/storage/calibrated.py."""
    return dict(zip(parts_of(len(sources.models)), sources.models, strict=True))


def _write_pyfunc(
    folder: Path,
    signature: "ModelSignature",
    example: pd.DataFrame,
    model: "Model",
    places: Mapping[str, str],
) -> None:
    """Write MLmodel, the pinned requirements and the input example to a folder.

    model   MLflow's record of the LoggedModel, with its id and the id of its run
    places  part of the model -> URI from which the loader fetches it
    """
    import mlflow.pyfunc

    with tempfile.TemporaryDirectory() as parent, _LOCK, _unchecked_requirements():
        mlflow.pyfunc.save_model(
            Path(parent) / "pyfunc",
            loader_module=LOADER,
            signature=signature,
            input_example=example,
            pip_requirements=list(requirements()),
            model_config=dict(places),
            mlflow_model=model,
        )
        for file in (Path(parent) / "pyfunc").iterdir():
            file.rename(folder / file.name)


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


def _signature() -> "ModelSignature":
    """Return the columns that the pyfunc reads and writes, and its parameters with their defaults."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    params = (
        ParamSpec("base_rate", "double", None),  # a base rate that is given is that of the rows
        ParamSpec("threshold", "double", PredictConfig().threshold),
        ParamSpec("at_least", "long", PredictConfig().at_least),
    )
    return ModelSignature(
        inputs=Schema([ColSpec("string", name) for name in COLUMNS]),
        outputs=Schema([ColSpec(kind, name, required=name in COLUMNS) for name, kind in OUTPUTS.items()]),
        params=ParamSchema(list(params)),
    )


def _signature_of_scores(calibrator: "ScoreCalibrator") -> "ModelSignature":
    """Return the columns that the pyfunc of a calibrator of scores reads and writes, and its parameter."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    from kgcore.external.calibrator import RELATION, SCORE, SCORE_ANSWERS, SCORER

    needed = {SCORE: True, RELATION: calibrator.by_relation, SCORER: False}
    kinds = {SCORE: "double", RELATION: "string", SCORER: "string"}
    return ModelSignature(
        inputs=Schema([ColSpec(kinds[name], name, required=needed[name]) for name in kinds]),
        outputs=Schema([ColSpec("double", name) for name in SCORE_ANSWERS]),
        params=ParamSchema([ParamSpec("base_rate", "double", calibrator.bound.base_rate)]),
    )


@cache
def requirements() -> tuple[str, ...]:
    """Return the installed versions of PACKAGES as requirements. A local version such as 2.13.0+cpu loses its end."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name}=={version(name).partition('+')[0]}")
        except PackageNotFoundError:  # kgcal runs from a checkout that is not installed
            continue
    return tuple(found)
