"""Predictions as a parquet table."""

from pathlib import Path

import numpy as np

from kgcore.evaluation.predictions import Predictions
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_predictions(path: Path, predictions: Predictions) -> None:
    """s, p, o, label, weight, score, and a column of probabilities a calibrator; accuracies in the metadata."""
    columns = spo_columns(predictions.triples) | {"label": predictions.labels.astype(np.int8)}
    columns |= {"weight": predictions.weights, "score": predictions.scores}
    columns |= {f"q.{label}": q for label, q in predictions.probabilities.items()}
    kept = ("accuracies", "accuracy_per_relation", "relations", "synthetic_negatives")
    write_table(path, columns, {name: getattr(predictions, name) for name in kept})


def read_predictions(path: Path) -> Predictions:
    """The predictions `write_predictions` wrote."""
    table, metadata = read_table(path)
    labels = table["label"].astype(np.float64)
    q = {name.removeprefix("q."): column for name, column in table.items() if name.startswith("q.")}
    return Predictions(triples_of(table), labels, table["weight"], table["score"], q, **metadata)
