"""Folds of the training facts: each fact is left out of one model, if this model still knows its names."""

import numpy as np

from kgcore.arrays import Ints
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph

KEPT = -1  # the fold of a fact that every model is trained on


def fact_folds(graph: KnowledgeGraph, folds: int, rng: np.random.Generator) -> Ints:
    """Assign the training facts to folds at random. Return the fold of each fact (n,), 0 to folds - 1, or KEPT.

    folds  number of folds K, at least 2

    The model of fold i trains on all facts but those of fold i. Each model must know every entity and every predicate.
    So a name must not have all its facts in one fold: if they are drawn into one fold, one of them moves to another
    fold. The move is impossible for the only fact of a name: this fact is KEPT.

    Raises InputError for fewer than 2 folds, or if no fact can be left out.
    """
    if folds < 2:
        raise InputError(f"folds is {folds}: it must be at least 2")
    triples, entities = graph.train.positives, len(graph.entities)
    fold = (rng.permutation(len(triples)) % folds).astype(np.int64)
    names = np.stack([triples[:, 0], triples[:, 2], entities + triples[:, 1]], axis=1)
    names[names[:, 0] == names[:, 1], 1] = -1  # a fact with one entity on both sides counts once for it
    present = names >= 0
    size = entities + len(graph.predicates)
    degree = np.bincount(names[present], minlength=size)
    held = np.zeros((folds, size), dtype=np.int64)  # facts of each name in each fold
    np.add.at(held, (np.broadcast_to(fold[:, None], names.shape)[present], names[present]), 1)
    emptied = (held[fold[:, None], names] == degree[names]) & present
    for row in np.flatnonzero(emptied.any(axis=1)):
        own = names[row][present[row]]
        if (held[fold[row], own] < degree[own]).all():
            continue  # another fact of the name has moved already
        held[fold[row], own] -= 1
        room = np.flatnonzero((held[:, own] + 1 < degree[own]).all(axis=1))
        fold[row] = rng.choice(room) if len(room) else KEPT
        if len(room):
            held[fold[row], own] += 1
    if (fold == KEPT).all():
        raise InputError(
            f"none of the {len(fold):,} training facts of {graph.name} can be left out of training: each is the only "
            "fact of its subject, predicate or object"
        )
    return fold
