"""The artifacts' formats: parquet for tables, safetensors for tensors, JSON for parameters. Never a pickle.

Each kind has a `write_` that takes a path and a `read_` that gives back an equal object. Torch takes more than a
second to load: that is left to those that read or write a model.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgcore.arrays import Floats, Triples
from kgcore.corruptions.base import Corruptions
from kgcore.evaluation.evaluate import MAIN, Measured
from kgcore.evaluation.predictions import Predictions
from kgcore.graph import SPLITS, KnowledgeGraph, Split
from kgcore.metrics.reliability import Reliability
from kgcore.score_table import ScoreTable

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

FORMAT = 1  # raise it when a format changes: it is part of every cache key


def write_json(path: Path, value: Any) -> None:
    """JSON, readable by people."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """What stands in a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_graph(folder: Path, graph: KnowledgeGraph) -> None:
    """entities.parquet, predicates.parquet (name; the row is the number), and a table of each split."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, names in (("entities", graph.entities), ("predicates", graph.predicates)):
        pq.write_table(pa.table({"name": pa.array(names, pa.string())}), folder / f"{name}.parquet")
    for name in SPLITS:
        split: Split = getattr(graph, name)
        _write_table(folder / f"{name}.parquet", _spo(split.triples) | {"label": split.labels.astype(np.int8)})
    if len(graph.other_facts):
        _write_table(folder / "other_facts.parquet", _spo(graph.other_facts))
    write_json(folder / "graph.json", {"name": graph.name})


def read_graph(folder: Path, test: bool = True) -> KnowledgeGraph:
    """The graph `write_graph` wrote; not `test`: with an empty test split, whose file is not read."""
    names = {n: read_names(folder / f"{n}.parquet") for n in ("entities", "predicates")}
    splits: dict[str, Any] = {}
    for name in SPLITS:
        if name == "test" and not test:
            splits[name] = Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0))
            continue
        table, _ = _read_table(folder / f"{name}.parquet")
        splits[name] = Split(_triples(table), table["label"].astype(np.float64))
    name, others = read_json(folder / "graph.json")["name"], folder / "other_facts.parquet"
    facts: dict[str, Any] = {"other_facts": _triples(_read_table(others)[0])} if others.is_file() else {}
    return KnowledgeGraph(name, names["entities"], names["predicates"], **splits, **facts)


def read_names(path: Path) -> list[str]:
    """The names of entities or predicates, from one of the two files that `write_graph` wrote for them."""
    names: list[str] = pq.read_table(path)["name"].to_pylist()
    return names


def write_model(folder: Path, trained: "TrainedModel") -> None:
    """embeddings.safetensors and model.json."""
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
    """The model `write_model` wrote."""
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


def write_corruptions(path: Path, made: dict[str, Corruptions]) -> None:
    """One table of all splits' corruptions: s, p, o, source, split."""
    columns = _spo(np.concatenate([c.triples for c in made.values()]))
    columns["source"] = np.concatenate([c.source for c in made.values()])
    columns["split"] = np.repeat(list(made), [len(c.triples) for c in made.values()])
    counts = {name: {split: getattr(c, name) for split, c in made.items()} for name in ("dropped", "fallbacks")}
    _write_table(path, columns, counts)


def read_corruptions(path: Path) -> dict[str, Corruptions]:
    """The corruptions `write_corruptions` wrote, by split."""
    table, metadata = _read_table(path)
    triples, made = _triples(table), {}
    for split, dropped in metadata["dropped"].items():
        own, fallbacks = table["split"] == split, metadata.get("fallbacks", {}).get(split, 0)
        made[split] = Corruptions(triples[own], table["source"][own], dropped, fallbacks)
    return made


def write_scores(path: Path, table: ScoreTable) -> None:
    """s, p, o, label, score, split, origin; the fingerprints of model and data set in the file's metadata."""
    columns = _spo(table.triples) | {"label": table.labels.astype(np.int8), "score": table.scores}
    columns |= {"split": table.split, "origin": table.origin}
    _write_table(path, columns, {"model": table.model, "dataset": table.dataset})


def read_scores(path: Path) -> ScoreTable:
    """The score table `write_scores` wrote."""
    table, metadata = _read_table(path)
    labels = table["label"].astype(np.float64)
    return ScoreTable(_triples(table), labels, table["score"], table["split"], table["origin"], **metadata)


def write_predictions(path: Path, predictions: Predictions) -> None:
    """s, p, o, label, weight, score, and a column of probabilities a calibrator; accuracies in the metadata."""
    columns = _spo(predictions.triples) | {"label": predictions.labels.astype(np.int8)}
    columns |= {"weight": predictions.weights, "score": predictions.scores}
    columns |= {f"q.{label}": q for label, q in predictions.probabilities.items()}
    kept = ("accuracies", "accuracy_per_relation", "relations", "synthetic_negatives")
    _write_table(path, columns, {name: getattr(predictions, name) for name in kept})


def read_predictions(path: Path) -> Predictions:
    """The predictions `write_predictions` wrote."""
    table, metadata = _read_table(path)
    labels = table["label"].astype(np.float64)
    q = {name.removeprefix("q."): column for name, column in table.items() if name.startswith("q.")}
    return Predictions(_triples(table), labels, table["weight"], table["score"], q, **metadata)


def write_ranks(path: Path, triples: Triples, ranks: Floats) -> None:
    """s, p, o, and the filtered ranks of the subject and the object."""
    _write_table(path, _spo(triples) | {"subject_rank": ranks[:, 0], "object_rank": ranks[:, 1]})


def write_disagreement(path: Path, triples: Triples, columns: dict[str, Floats]) -> None:
    """s, p, o, and how far the members of each ensemble are apart, in nats."""
    _write_table(path, _spo(triples) | columns)


def write_measured(path: Path, measured: dict[str, Measured]) -> None:
    """Metrics, their intervals and reliability bins of every calibrator as JSON."""

    def plain(result: Measured) -> dict[str, Any]:
        bins = {name: column.tolist() for name, column in asdict(result.reliability).items()}
        return result.metrics() | {"intervals": result.intervals, "reliability": bins}

    write_json(path, {label: plain(result) for label, result in measured.items()})


def read_measured(path: Path) -> dict[str, Measured]:
    """What `write_measured` wrote."""
    measured = {}
    for label, result in read_json(path).items():
        bins = {name: np.array(column) for name, column in result.pop("reliability").items()}
        intervals = {name: (low, high) for name, (low, high) in result.pop("intervals", {}).items()}
        main = {name: result.pop(name) for name in MAIN}
        measured[label] = Measured(**main, reliability=Reliability(**bins), others=result, intervals=intervals)
    return measured


def _spo(triples: Triples) -> dict[str, Any]:
    return {"s": triples[:, 0], "p": triples[:, 1], "o": triples[:, 2]}


def _triples(table: dict[str, Any]) -> Triples:
    return np.stack([table["s"], table["p"], table["o"]], axis=1).astype(np.int64)


def _write_table(path: Path, columns: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    pq.write_table(table.replace_schema_metadata({"kgcal": json.dumps(metadata or {})}), path)


def _read_table(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    table = pq.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    for name, column in columns.items():
        if column.dtype == object:
            columns[name] = column.astype(str)
    return columns, json.loads((table.schema.metadata or {}).get(b"kgcal", b"{}"))
