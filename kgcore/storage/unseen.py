"""Held-out rows with entities that training has not seen, and the answers about them."""

from pathlib import Path

import numpy as np

from kgcore.calibration.unseen_answers import UnseenAnswers, UnseenProbabilities
from kgcore.datasets.unseen import UnseenRows
from kgcore.graph import Split
from kgcore.storage.json_file import read_json, write_json
from kgcore.storage.tables import read_table, spo_columns, triples_of, write_table


def write_unseen(path: Path, unseen: UnseenRows) -> None:
    """Write the columns split, s, p, o and label, and the names of the unseen entities as metadata."""
    splits = list(unseen.splits.values())
    columns = spo_columns(np.concatenate([part.triples for part in splits]))
    labels = np.concatenate([part.labels for part in splits])
    of = np.repeat(np.arange(len(splits)), [len(part) for part in splits])
    metadata = {"names": list(unseen.names), "splits": list(unseen.splits)}
    write_table(path, {"split": of, **columns, "label": labels}, metadata)


def read_unseen(path: Path) -> UnseenRows:
    """Read the output of `write_unseen`."""
    columns, metadata = read_table(path)
    triples, labels, of = triples_of(columns), columns["label"].astype(np.float64), columns["split"]
    parts = {name: Split(triples[of == n], labels[of == n]) for n, name in enumerate(metadata["splits"])}
    return UnseenRows(tuple(metadata["names"]), parts)


def write_unseen_answers(path: Path, fitted: UnseenAnswers) -> None:
    """Write the fitted answers as JSON."""
    write_json(path, fitted.to_json())


def read_unseen_answers(path: Path) -> UnseenAnswers:
    """Read the output of `write_unseen_answers`."""
    return UnseenAnswers.from_json(read_json(path))


def write_answers(path: Path, answers: UnseenProbabilities) -> None:
    """Write the columns probability, low and high."""
    write_table(path, {"probability": answers.probabilities, "low": answers.low, "high": answers.high})


def read_answers(path: Path) -> UnseenProbabilities:
    """Read the output of `write_answers`."""
    columns = read_table(path)[0]
    return UnseenProbabilities(*(columns[name].astype(np.float64) for name in ("probability", "low", "high")))
