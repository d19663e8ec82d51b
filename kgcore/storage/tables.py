"""Rows of numbers as parquet tables, whose metadata can hold further values as JSON; and the trials of a search as CSV.

A `write_` function stores an object at a path, and its `read_` function returns an equal object. It imports the class
of the object: a pipeline whose stages are re-used loads none of them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kgcore.arrays import Floats, Scores, Triples
from kgcore.base_rate import BaseRate

if TYPE_CHECKING:
    import pandas as pd

    from kgcore.calibrate.calibrated import UnseenProbabilities
    from kgcore.data.datasets.read import UnseenRows
    from kgcore.embed.corruptions.base import Corruptions
    from kgcore.measure.evaluation.predictions import Predictions
    from kgcore.scores.table import ScoreTable, TableEvidence

_COUNTS = ("dropped", "fallbacks", "redrawn")
_HITS = ("hits_of_subjects", "hits_of_objects")
# field of a score table -> its column, if the table has it
_OPTIONAL = {"raw": "raw", "confidences": "confidence", "weights": "weight", "concentrations": "concentration"}
_OPTIONAL |= {"hidden_log_odds": "hidden_log_odds"}


def spo_columns(triples: Triples) -> dict[str, Any]:
    """Split triples (n, 3) into the columns s, p and o."""
    return {"s": triples[:, 0], "p": triples[:, 1], "o": triples[:, 2]}


def triples_of(table: dict[str, Any]) -> Triples:
    """Join the columns s, p and o to triples (n, 3)."""
    return np.stack([table["s"], table["p"], table["o"]], axis=1).astype(np.int64, copy=False)


def write_table(path: Path, columns: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
    """Write columns of equal length, and the metadata as JSON under the key `kgcal`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(column) for name, column in columns.items()})
    pq.write_table(table.replace_schema_metadata({"kgcal": json.dumps(metadata or {})}), path)


def read_table(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the output of `write_table`: name -> column, and the metadata."""
    schema = pq.read_schema(path)
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    table = pq.read_table(path, read_dictionary=texts)  # a text that occurs often is in memory once
    columns = {name: _text(table[name]) if name in texts else table[name].to_numpy() for name in table.column_names}
    del table
    pa.default_memory_pool().release_unused()  # otherwise the pool keeps as much memory as the file has rows
    return columns, json.loads((schema.metadata or {}).get(b"kgcal", b"{}"))


def _text(column: pa.ChunkedArray) -> npt.NDArray[np.str_]:
    whole = column.unify_dictionaries().combine_chunks()
    values: npt.NDArray[np.str_] = np.array(whole.dictionary.to_pylist(), dtype=str)[whole.indices.to_numpy()]
    return values


def write_triples(path: Path, triples: Triples) -> None:
    """Write the triples (n, 3) as the columns s, p and o."""
    write_table(path, spo_columns(triples))


def read_triples(path: Path) -> Triples:
    """Read the output of `write_triples`: triples (n, 3)."""
    return triples_of(read_table(path)[0])


def write_ranks(path: Path, ranked: tuple[Triples, Floats]) -> None:
    """Write triples (n, 3) and their ranks (n, 2), the subject first: columns s, p, o, subject_rank, object_rank."""
    triples, ranks = ranked
    write_table(path, spo_columns(triples) | {"subject_rank": ranks[:, 0], "object_rank": ranks[:, 1]})


def read_ranks(path: Path) -> tuple[Triples, Floats]:
    """Read the output of `write_ranks`: the triples (n, 3) and their filtered ranks (n, 2), the subject first."""
    table, _ = read_table(path)
    return triples_of(table), np.stack([table["subject_rank"], table["object_rank"]], axis=1)


def write_disagreement(path: Path, found: tuple[Triples, dict[str, Floats]]) -> None:
    """Write the columns s, p, o, and for each ensemble a column with the disagreement of its members, in nats."""
    triples, columns = found
    write_table(path, spo_columns(triples) | columns)


def read_disagreement(path: Path) -> tuple[Triples, dict[str, Floats]]:
    """Read the output of `write_disagreement`: the triples (n, 3), and ensemble -> disagreement (n,) in nats."""
    table, _ = read_table(path)
    return triples_of(table), {name: column for name, column in table.items() if name not in ("s", "p", "o")}


def write_scores(path: Path, table: "ScoreTable") -> None:
    """Write the columns s, p, o, label, score, split and origin.

    The column raw exists if the scores are normalised, the columns weight, concentration, hidden_log_odds and hits of
    both sides if the table has them, and the column confidence if a split has confidences. The metadata identifies the
    model and the data set, and has the names of relations.
    """
    columns = spo_columns(table.triples) | {"label": table.labels.astype(np.int8), "score": table.scores}
    columns |= {"split": table.split, "origin": table.origin}
    optional = {column: getattr(table, name) for name, column in _OPTIONAL.items()}
    columns |= {column: values for column, values in optional.items() if values is not None}
    columns |= {} if table.hits is None else dict(zip(_HITS, table.hits.T, strict=True))
    rate = None if table.labelled_base_rate is None else asdict(table.labelled_base_rate)
    further = {"labelled_base_rate": rate, "cold": table.cold, "relations": table.relations}
    known = {name: value for name, value in further.items() if value not in (None, ())}
    write_table(path, columns, {"model": table.model, "dataset": table.dataset} | known)


def read_scores(path: Path) -> "ScoreTable":
    """Read the output of `write_scores`."""
    from kgcore.scores.table import ScoreTable

    table, metadata = read_table(path)
    labels = table["label"].astype(np.float64)
    rows = (triples_of(table), labels, table["score"], table["split"], table["origin"])
    further = {name: table.get(column) for name, column in _OPTIONAL.items()}
    hits = np.column_stack([table[name] for name in _HITS]) if _HITS[0] in table else None
    metadata["relations"] = tuple(metadata.get("relations", ()))
    if "labelled_base_rate" in metadata:
        metadata["labelled_base_rate"] = BaseRate(**metadata["labelled_base_rate"])
    return ScoreTable(*rows, hits=hits, **{**further, **metadata})


def write_corruptions(path: Path, made: "dict[str, Corruptions]") -> None:
    """Write the corruptions of all splits as one table with the columns s, p, o, source, split, and perhaps weight.

    The column weight exists if the corruptions of a split have weights. It is NaN for the others. The metadata has the
    hits above 0 of a split: the number of both sides' hits, their positions, and the hits.

    made  split -> its corruptions
    """
    columns = spo_columns(np.concatenate([c.triples for c in made.values()]))
    columns["source"] = np.concatenate([c.source for c in made.values()])
    columns["split"] = np.repeat(list(made), [len(c.triples) for c in made.values()])
    if any(c.weights is not None for c in made.values()):
        weights = [np.full(len(c.triples), np.nan) if c.weights is None else c.weights for c in made.values()]
        columns["weight"] = np.concatenate(weights)
    counts = {name: {split: getattr(c, name) for split, c in made.items()} for name in _COUNTS}
    hits = {split: c.hits for split, c in made.items() if c.hits is not None}
    write_table(path, columns, counts | {"hits_by_side": {split: _sparse(values) for split, values in hits.items()}})


def read_corruptions(path: Path) -> "dict[str, Corruptions]":
    """Read the output of `write_corruptions`: split -> corruptions."""
    from kgcore.embed.corruptions.base import Corruptions

    table, metadata = read_table(path)
    triples, made, stored = triples_of(table), {}, metadata["hits_by_side"]
    for split, dropped in metadata["dropped"].items():
        own = table["split"] == split
        fallbacks, redrawn = metadata["fallbacks"][split], metadata["redrawn"][split]
        weights = table["weight"][own] if "weight" in table else None
        weights = None if weights is None or np.isnan(weights).any() else weights
        hits = _dense(*stored[split]) if split in stored else None
        made[split] = Corruptions(triples[own], table["source"][own], dropped, fallbacks, redrawn, weights, hits)
    return made


def _sparse(values: Floats) -> tuple[int, list[int], list[float]]:
    flat = values.reshape(-1)
    rows = np.flatnonzero(flat)
    return len(flat), rows.tolist(), flat[rows].tolist()


def _dense(size: int, rows: list[int], hits: list[float]) -> Floats:
    values = np.zeros(size)
    values[rows] = hits
    return values.reshape(-1, 2)


def write_predictions(path: Path, predictions: "Predictions") -> None:
    """Write the columns s, p, o, label, weight, score, and q.LABEL with the probabilities of each calibrator label.

    There is also the column confidence if the rows have confidences. The metadata holds the accuracies, the
    decisions for each relation, and the examples.
    """
    columns = spo_columns(predictions.triples) | {"label": predictions.labels.astype(np.int8)}
    columns |= {"weight": predictions.weights, "score": predictions.scores}
    columns |= {} if predictions.confidences is None else {"confidence": predictions.confidences}
    columns |= {f"q.{label}": q for label, q in predictions.probabilities.items()}
    metadata = {
        "accuracies": predictions.accuracies,
        "accuracy_per_relation": predictions.accuracy_per_relation,
        "relations": [asdict(relation) for relation in predictions.relations],
        "synthetic_negatives": predictions.synthetic_negatives,
        "left_out": predictions.left_out,
        "examples": {label: [asdict(row) for row in rows] for label, rows in predictions.examples.items()},
    }
    write_table(path, columns, metadata)


def read_predictions(path: Path) -> "Predictions":
    """Read the output of `write_predictions`."""
    from kgcore.measure.evaluation.predictions import Example, Predictions
    from kgcore.measure.metrics.classification import RelationDecisions

    table, metadata = read_table(path)
    labels = table["label"].astype(np.float64)
    q = {name.removeprefix("q."): column for name, column in table.items() if name.startswith("q.")}
    relations = [RelationDecisions.from_json(row) for row in metadata.pop("relations")]
    examples = {label: [Example(**row) for row in rows] for label, rows in metadata.pop("examples").items()}
    rows = (triples_of(table), labels, table["weight"], table["score"], q)
    confidences = table.get("confidence")
    return Predictions(*rows, relations=relations, confidences=confidences, examples=examples, **metadata)


def write_evidence(path: Path, table: "TableEvidence") -> None:
    """Write the column row and a column for each feature."""
    names, values = table.evidence.names, table.evidence.values
    columns = {"row": table.rows} | {name: values[:, number] for number, name in enumerate(names)}
    write_table(path, columns, {"groups": list(table.groups), "others": list(table.others)})


def read_evidence(path: Path) -> "TableEvidence":
    """Read the output of `write_evidence`."""
    from kgcore.scores.table import Evidence, TableEvidence

    columns, metadata = read_table(path)
    rows = columns.pop("row").astype(np.int64)
    values = np.stack([column.astype(np.float32) for column in columns.values()], axis=1)
    others = tuple(metadata.get("others", ()))
    return TableEvidence(rows, Evidence(tuple(columns), values), tuple(metadata["groups"]), others)


def write_log_odds(path: Path, found: Mapping[str, Scores]) -> None:
    """Write one column of finite log-odds for each label of a calibrator. A shorter column ends with NaN."""
    most = max(map(len, found.values()))
    write_table(path, {name: np.pad(own, (0, most - len(own)), constant_values=np.nan) for name, own in found.items()})


def read_log_odds(path: Path) -> Mapping[str, Scores]:
    """Read the output of `write_log_odds`."""
    return {name: column[~np.isnan(column)] for name, column in read_table(path)[0].items()}


def write_unseen(path: Path, unseen: "UnseenRows") -> None:
    """Write the columns split, s, p, o and label, and the names of the unseen entities as metadata."""
    splits = list(unseen.splits.values())
    columns = spo_columns(np.concatenate([part.triples for part in splits]))
    labels = np.concatenate([part.labels for part in splits])
    of = np.repeat(np.arange(len(splits)), [len(part) for part in splits])
    metadata = {"names": list(unseen.names), "splits": list(unseen.splits)}
    write_table(path, {"split": of, **columns, "label": labels}, metadata)


def read_unseen(path: Path) -> "UnseenRows":
    """Read the output of `write_unseen`."""
    from kgcore.data.datasets.read import UnseenRows
    from kgcore.data.graph import Split

    columns, metadata = read_table(path)
    triples, labels, of = triples_of(columns), columns["label"].astype(np.float64), columns["split"]
    parts = {name: Split(triples[of == n], labels[of == n]) for n, name in enumerate(metadata["splits"])}
    return UnseenRows(tuple(metadata["names"]), parts)


def write_answers(path: Path, answers: "UnseenProbabilities") -> None:
    """Write the columns probability, low and high."""
    write_table(path, {"probability": answers.probabilities, "low": answers.low, "high": answers.high})


def read_answers(path: Path) -> "UnseenProbabilities":
    """Read the output of `write_answers`."""
    from kgcore.calibrate.calibrated import UnseenProbabilities

    columns = read_table(path)[0]
    return UnseenProbabilities(*(columns[name].astype(np.float64) for name in ("probability", "low", "high")))


def write_trials(path: Path, table: "pd.DataFrame") -> None:
    """Write a row for each trial. A mapping, such as the shares of strategies, becomes JSON text in its cell."""
    table.map(lambda value: json.dumps(value) if isinstance(value, dict) else value).to_csv(path, index=False)


def read_trials(path: Path) -> "pd.DataFrame":
    """Read the output of `write_trials`."""
    import pandas as pd

    table = pd.read_csv(path, dtype={"reason": str}).fillna({"reason": ""})
    for name in table.columns:
        if table[name].map(_is_mapping).any():
            table[name] = (
                table[name].astype(object).map(lambda value: json.loads(value) if _is_mapping(value) else value)
            )
    return table


def _is_mapping(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("{")
