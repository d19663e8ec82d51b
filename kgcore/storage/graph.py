"""A knowledge graph as a folder of parquet tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kgcore.data.graph import SPLITS, KnowledgeGraph, Split
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table

BATCH = 2**18  # rows that are read at a time


def write_graph(folder: Path, graph: KnowledgeGraph) -> None:
    """Write the graph to a folder.

    entities.parquet and predicates.parquet have a row for each name; the row number is the id. Each split is a table
    with the columns s, p, o and label, and confidence if it has confidences. other_facts.parquet exists only if the
    graph has other facts. graph.json holds the name of the graph and, if it has one, `labelled_base_rate`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, names in (("entities", graph.entities), ("predicates", graph.predicates)):
        pq.write_table(pa.table({"name": pa.array(names, pa.string())}), folder / f"{name}.parquet")
    for name in SPLITS:
        split: Split = getattr(graph, name)
        columns = spo_columns(split.triples) | {"label": split.labels.astype(np.int8)}
        columns |= {} if split.confidences is None else {"confidence": split.confidences}
        write_table(folder / f"{name}.parquet", columns)
    if len(graph.other_facts):
        write_table(folder / "other_facts.parquet", spo_columns(graph.other_facts))
    rate = {} if graph.labelled_base_rate is None else {"labelled_base_rate": graph.labelled_base_rate}
    write_json(folder / "graph.json", {"name": graph.name} | rate)


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
    facts["labelled_base_rate"] = data.get("labelled_base_rate")
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
