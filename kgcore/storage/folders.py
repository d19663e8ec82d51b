"""Models, calibrators and graphs as folders, the names of the parts of a calibrated model, and JSON files.

A model's tables are safetensors, a graph's tables parquet. Torch, SciPy and scikit-learn take seconds to load: the
functions import what they need, and the module does not.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from kgcore.arrays import blocks
from kgcore.base_rate import BaseRate, Share
from kgcore.data.graph import SPLITS, KnowledgeGraph, Split
from kgcore.errors import InputError, KgcalError, first_line
from kgcore.storage.tables import read_table, spo_columns, triples_of

if TYPE_CHECKING:
    from torch import Tensor

    from kgcore.calibrate.calibrated import Calibrated
    from kgcore.embed.models.trained import TrainedModel
    from kgcore.measure.evaluation.evaluate import Measured

FORMAT = 4  # version of all artifact formats, part of every cache key; increase it when a format changes
CALIBRATOR_FILE, SEAL = "calibrator.json", "seal"
T = TypeVar("T")
MODEL_PART, GRAPH_PART = "model", "graph"  # folders; further models are model_2, model_3, ...
BATCH = 2**18  # rows that are read at a time
GROUP = 2**20  # rows that are written at a time, as a group of rows of parquet
_BASE_RATE = TypeAdapter(BaseRate)


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise InputError for every error of a file that the block reads, whatever the file has. `what` names it."""
    try:
        yield
    except KgcalError:
        raise
    except Exception as error:
        reason = first_line(error)
        if isinstance(error, ValidationError):
            fault = error.errors()[0]
            reason = f"{'.'.join(map(str, fault['loc']))} is {fault['input']!r:.60}: {fault['msg']}"
        raise InputError(f"{what} cannot be read: {reason}") from error


def write_measured(path: Path, measured: "dict[str, Measured]") -> None:
    """Write the metrics, their intervals and the reliability bins of every calibrator as JSON.

    measured  calibrator label -> its results
    """
    write_json(path, {label: _plain(result) for label, result in measured.items()})


def read_measured(path: Path) -> "dict[str, Measured]":
    """Read the output of `write_measured`."""
    from kgcore.measure.evaluation.evaluate import Measured
    from kgcore.measure.metrics.reliability import Reliability

    measured = {}
    for label, result in read_json(path).items():
        bins = {name: np.array(column) for name, column in result.pop("reliability").items()}
        intervals = {name: (low, high) for name, (low, high) in result.pop("intervals").items()}
        measured[label] = Measured(result, Reliability(**bins), intervals)
    return measured


def _plain(result: "Measured") -> dict[str, Any]:
    bins = {name: column.tolist() for name, column in asdict(result.reliability).items()}
    return result.metrics | {"intervals": result.intervals, "reliability": bins}


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


class _CohortFile(BaseModel, strict=True):
    weight: Share
    temperature: Annotated[FiniteFloat, Field(gt=0)]


class _ModelFile(BaseModel, strict=True):
    """The values of model.json, with their types and ranges."""

    model: str
    k: Annotated[int, Field(gt=0, lt=2**31)]
    options: dict[str, bool | int | FiniteFloat]  # a whole number stays one: the fingerprint has its text
    inverse: bool = False
    cohort: _CohortFile | None = None


def read_model(folder: Path) -> "TrainedModel":
    """Read the output of `write_model`.

    Name, k and options determine the type and the shape of every table, except the numbers of rows. So the fingerprint,
    a hash of these and of all numbers, determines them, too. Raises an error for a table of another type or shape.
    """
    from safetensors.torch import load_file

    from kgcore.embed.models.base import Embeddings
    from kgcore.embed.models.cohort import Cohort
    from kgcore.embed.models.trained import TrainedModel

    stored = _ModelFile.model_validate(read_json(folder / "model.json"))
    tables = load_file(folder / "embeddings.safetensors")
    entities, predicates = tables.pop("entities"), tables.pop("predicates")
    cohort = None
    if stored.cohort:
        members, starts = (tables.pop(f"cohort.{name}").numpy() for name in ("members", "starts"))
        cohort = Cohort(stored.cohort.weight, stored.cohort.temperature, members, starts)
        if not (members < len(entities)).all() or len(starts) != len(predicates) + 1:
            raise InputError(f"{folder} has a cohort of other entities or predicates: use the files of one model")
    shared = {name.removeprefix("shared."): tensor for name, tensor in tables.items()}
    embeddings = Embeddings(entities, predicates, shared)
    trained = TrainedModel(stored.model, stored.k, embeddings, stored.options, stored.inverse, cohort)
    model = trained.model
    shapes = {"entities": (len(entities), model.entity_width), "predicates": (len(predicates), model.predicate_width)}
    if entities.shape == shapes["entities"]:  # so that a wrong k takes no memory
        shapes |= {name: start.shape for name, start in model.initial_shared(np.random.default_rng(0)).items()}
    found = {"entities": entities, "predicates": predicates} | shared
    if {name: tuple(table.shape) for name, table in found.items()} != shapes or not all(
        map(_is_finite, found.values())
    ):
        wanted = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise InputError(f"the tables of {folder} must be finite float32 numbers of the shapes {wanted}")
    return trained


def _is_finite(table: "Tensor") -> bool:
    """Return whether all numbers of a float32 table are finite. Memory: a block of its rows, because it is mapped."""
    from torch import split

    return str(table.dtype) == "torch.float32" and all(bool(part.isfinite().all()) for part in split(table, BATCH))


def write_sealed(path: Path, data: dict[str, Any]) -> None:
    """Write a JSON object with the fingerprint of its content, so that `read_sealed` refuses a file that was edited."""
    write_json(path, data | {SEAL: seal_of(data)})


def read_sealed(path: Path, build: Callable[[Any], T]) -> T:
    """Return what `build` makes of the output of `write_sealed`. Raises InputError if the file was edited."""
    data = read_json(path)
    seal = data.pop(SEAL, "") if isinstance(data, dict) else ""
    built = build(data)
    if seal != seal_of(data):
        raise InputError(f"{path} was changed after it was written: use the file that kgcal wrote")
    return built


def seal_of(data: Any) -> str:
    """Return the fingerprint of the content of a JSON file."""
    plain = json.loads(json.dumps(data))  # keys of other types become text
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def write_calibrator(folder: Path, bound: "Calibrated") -> None:
    """Write calibrator.json to the folder."""
    write_sealed(folder / CALIBRATOR_FILE, bound.to_json())


def read_calibrator(folder: Path) -> "Calibrated":
    """Read the output of `write_calibrator`."""
    from kgcore.calibrate.calibrated import Calibrated

    return read_sealed(folder / CALIBRATOR_FILE, Calibrated.from_json)


def write_calibrated(
    folder: Path, bound: "Calibrated", models: "Sequence[TrainedModel]", graph: KnowledgeGraph
) -> None:
    """Write all parts of a calibrated model to the folder. `models`: those that its scorer needs, in their order."""
    write_calibrator(folder, bound)
    for part, model in zip(parts_of(len(models)), models, strict=True):
        write_model(folder / part, model)
    write_graph(folder / GRAPH_PART, graph)


def write_graph(folder: Path, graph: KnowledgeGraph) -> None:
    """Write the graph to a folder.

    entities.parquet and predicates.parquet have a row for each name; the row number is the id. Each split is a table
    with the columns s, p, o and label, and confidence if it has confidences. other_facts.parquet exists only if the
    graph has other facts. graph.json holds the name of the graph and, if they are set, `labelled_base_rate` and
    `twins_together`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, names in (("entities", graph.entities), ("predicates", graph.predicates)):
        pq.write_table(pa.table({"name": pa.array(names, pa.string())}), folder / f"{name}.parquet")
    for name in SPLITS:
        split: Split = getattr(graph, name)
        columns = spo_columns(split.triples) | {"label": split.labels.astype(np.int8)}
        columns |= {} if split.confidences is None else {"confidence": split.confidences}
        _write_rows(folder / f"{name}.parquet", columns)
    if len(graph.other_facts):
        _write_rows(folder / "other_facts.parquet", spo_columns(graph.other_facts))
    rate = {} if graph.labelled_base_rate is None else {"labelled_base_rate": asdict(graph.labelled_base_rate)}
    together = {"twins_together": True} if graph.twins_together else {}
    write_json(folder / "graph.json", {"name": graph.name} | rate | together)


def _write_rows(path: Path, columns: dict[str, Any]) -> None:
    """Write arrays of numbers of equal length as `write_table` does, but group by group: copies of all take memory."""
    schema = pa.schema([(name, pa.from_numpy_dtype(column.dtype)) for name, column in columns.items()])
    with pq.ParquetWriter(path, schema.with_metadata({"kgcal": "{}"})) as writer:
        for rows in blocks(len(columns["s"]), GROUP) if len(columns["s"]) else [slice(0)]:
            writer.write_table(pa.table([pa.array(column[rows]) for column in columns.values()], schema=writer.schema))


def read_graph(folder: Path, test: bool = True) -> KnowledgeGraph:
    """Read the output of `write_graph`. With test=False, the test split is empty and its file is not read."""
    names = {n: read_names(folder / f"{n}.parquet") for n in ("entities", "predicates")}
    splits: dict[str, Any] = {}
    for name in SPLITS:
        if name == "test" and not test:
            splits[name] = Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0))
            continue
        splits[name] = _read_split(folder / f"{name}.parquet")
    data, others = read_json(folder / "graph.json"), folder / "other_facts.parquet"
    facts: dict[str, Any] = {"other_facts": triples_of(read_table(others)[0])} if others.is_file() else {}
    if "labelled_base_rate" in data:
        facts["labelled_base_rate"] = _BASE_RATE.validate_python(data["labelled_base_rate"])
    facts["twins_together"] = data.get("twins_together", False)
    return KnowledgeGraph(data["name"], names["entities"], names["predicates"], **splits, **facts)


def _read_split(path: Path) -> Split:
    """Read a split in batches of rows, so that a large file is not in memory twice."""
    file = pq.ParquetFile(path)
    count = file.metadata.num_rows
    triples, labels, start = np.empty((count, 3), dtype=np.int64), np.empty(count), 0
    confidences = np.empty(count) if "confidence" in file.schema_arrow.names else None
    for batch in file.iter_batches(BATCH):
        rows = slice(start, start := start + len(batch))
        for place, name in enumerate("spo"):
            triples[rows, place] = batch.column(name)
        labels[rows] = batch.column("label")
        if confidences is not None:
            confidences[rows] = batch.column("confidence")
    return Split(triples, labels, confidences)


def read_names(path: Path) -> list[str]:
    """Read the names of entities or predicates from entities.parquet or predicates.parquet of `write_graph`."""
    names: list[str] = pq.read_table(path)["name"].to_pylist()
    return names
