"""The predictions for the test triples as a parquet table."""

from dataclasses import asdict
from pathlib import Path

import numpy as np

from kgcore.evaluation.decisions import RelationDecisions
from kgcore.evaluation.predictions import Predictions
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_predictions(path: Path, predictions: Predictions) -> None:
    """Write the columns s, p, o, label, weight, score, and q.LABEL with the probabilities of each calibrator label.

    There is also the column confidence if the rows have confidences. The metadata holds the accuracies and the
    decisions for each relation.
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
    }
    write_table(path, columns, metadata)


def read_predictions(path: Path) -> Predictions:
    """Read the output of `write_predictions`."""
    table, metadata = read_table(path)
    labels = table["label"].astype(np.float64)
    q = {name.removeprefix("q."): column for name, column in table.items() if name.startswith("q.")}
    relations = [RelationDecisions.from_json(row) for row in metadata.pop("relations")]
    rows = (triples_of(table), labels, table["weight"], table["score"], q)
    return Predictions(*rows, relations=relations, confidences=table.get("confidence"), **metadata)
