"""The held-out rows with entities that training has not seen, which `prepare` drops: they have no embedding.

Evidence from names can answer for them: kgcore/evidence/base.py. Such an entity has an id from E on, for E entities of
train.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints
from kgcore.datasets.read import Read
from kgcore.graph import SPLITS, KnowledgeGraph, Split


@dataclass(frozen=True)
class UnseenRows:
    """Held-out triples with at least one entity that training lacks.

    names   names of these entities, sorted: names[i] has the id E + i
    splits  valid and test -> their distinct rows with such an entity, in the order of their ids
    """

    names: tuple[str, ...]
    splits: Mapping[str, Split]


def unseen_rows(read: Read, graph: KnowledgeGraph) -> UnseenRows:
    """Return the rows of valid and test with an entity that training lacks. Predicates that it lacks are left out.

    read  the rows of the files that the graph was made from. Confidences of the rows are left out
    """
    predicates = _positions(read.predicates, graph.predicates)
    entities = _positions(read.entities, graph.entities)
    rows = {name: _rows(read, name) for name in SPLITS[1:]}
    parts = {}
    for name, split_rows in rows.items():
        known = (entities[split_rows[:, [0, 2]]] >= 0).all(axis=1)
        parts[name] = split_rows[~known & (predicates[split_rows[:, 1]] >= 0)]
    held_out = np.concatenate([split_rows[:, [0, 2]].reshape(-1) for split_rows in parts.values()])
    new = np.unique(held_out[entities[held_out] < 0])
    entities[new] = len(graph.entities) + np.arange(len(new))
    splits = {}
    for name, split_rows in parts.items():
        triples = np.c_[
            entities[split_rows[:, 0]], predicates[split_rows[:, 1]], entities[split_rows[:, 2]], split_rows[:, 3]
        ]
        distinct = np.unique(triples, axis=0)
        splits[name] = Split(distinct[:, :3], distinct[:, 3].astype(np.float64))
    return UnseenRows(tuple(read.entities[number] for number in new.tolist()), splits)


def _positions(names: Sequence[str], known: Sequence[str]) -> Ints:
    """Return the position (n,) of each name in `known`; -1: it is not there."""
    places = {name: place for place, name in enumerate(known)}
    return np.fromiter((places.get(name, -1) for name in names), np.int64, len(names))


def _rows(read: Read, split: str) -> Ints:
    """Return the rows (n, 4) of a split, and of its file of negatives with the label 0."""
    rows = read.rows.get(split, np.zeros((0, 4), dtype=np.int64))[:, :4]
    false = read.rows.get(f"{split}_negatives", rows[:0])[:, :4].copy()
    false[:, 3] = 0
    return np.concatenate([rows, false])
