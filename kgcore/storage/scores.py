"""A score table as a parquet table."""

from pathlib import Path

import numpy as np

from kgcore.score_table import ScoreTable
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table

_HITS = ("hits_of_subjects", "hits_of_objects")


def write_scores(path: Path, table: ScoreTable) -> None:
    """Write the columns s, p, o, label, score, split and origin.

    The column raw exists if the scores are normalised, the columns weight, concentration, hidden_log_odds and hits of
    both sides if the table has them, and the column confidence if a split has confidences. The metadata identifies the
    model and the data set, and has the names of relations.
    """
    columns = spo_columns(table.triples) | {"label": table.labels.astype(np.int8), "score": table.scores}
    columns |= {"split": table.split, "origin": table.origin}
    columns |= {} if table.raw is None else {"raw": table.raw}
    columns |= {} if table.confidences is None else {"confidence": table.confidences}
    columns |= {} if table.weights is None else {"weight": table.weights}
    columns |= {} if table.concentrations is None else {"concentration": table.concentrations}
    columns |= {} if table.hits is None else dict(zip(_HITS, table.hits.T, strict=True))
    columns |= {} if table.hidden_log_odds is None else {"hidden_log_odds": table.hidden_log_odds}
    further = {"labelled_base_rate": table.labelled_base_rate, "cold": table.cold, "relations": table.relations}
    known = {name: value for name, value in further.items() if value not in (None, ())}
    write_table(path, columns, {"model": table.model, "dataset": table.dataset} | known)


def read_scores(path: Path) -> ScoreTable:
    """Read the output of `write_scores`."""
    table, metadata = read_table(path)
    labels = table["label"].astype(np.float64)
    rows = (triples_of(table), labels, table["score"], table["split"], table["origin"])
    names = {"raw": "raw", "weights": "weight", "confidences": "confidence", "concentrations": "concentration"}
    names |= {"hidden_log_odds": "hidden_log_odds"}
    further = {name: table.get(column) for name, column in names.items()}
    hits = np.column_stack([table[name] for name in _HITS]) if _HITS[0] in table else None
    metadata["relations"] = tuple(metadata.get("relations", ()))
    return ScoreTable(*rows, hits=hits, **{**further, **metadata})
