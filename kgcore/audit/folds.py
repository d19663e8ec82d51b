"""Folds of the training facts: every fact is left out of one fold's training, if its names stay known there."""

from dataclasses import replace

import numpy as np

from kgcore.arrays import Ints, Triples
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split

KEPT = -1  # the fold of a fact that is in the training triples of every fold


def fact_folds(graph: KnowledgeGraph, folds: int, rng: np.random.Generator) -> Ints:
    """Assign the training facts to folds at random. Return the fold of each fact (n,), 0 to folds - 1, or KEPT.

    folds  number of folds K, at least 2

    The model of fold i trains on all facts but those of fold i. So that it knows every entity and every predicate, each
    of them has a training fact outside every fold: if all facts of a name are drawn into one fold, one of these facts
    moves to another fold. The move is impossible for the only fact of a name: this fact is KEPT.

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


def without_fold(graph: KnowledgeGraph, fold: Ints, number: int) -> KnowledgeGraph:
    """Return the graph without the training facts of a fold.

    fold    (n,) the fold of each training fact: see `fact_folds`
    number  the fold that is left out

    The facts that are left out remain known facts, so that no corruption for calibration is one of them. The name of
    the graph is NAME-fold-I-of-K with I from 1, so that its models are not taken for models of the whole graph.
    """
    train, out = graph.train.positives, fold == number
    name = f"{graph.name}-fold-{number + 1}-of-{fold.max() + 1}"
    kept = Split(train[~out], np.ones(int((~out).sum())))
    return replace(graph, name=name, train=kept, other_facts=np.r_[graph.other_facts, train[out]])


def only_facts(graph: KnowledgeGraph, triples: Triples) -> list[str]:
    """Return for each training fact which of its names occur in no other fact: `subject`, `subject and object`, ...

    triples  (n, 3) training facts. The text is empty if every name has another training fact
    """
    train = graph.train.positives
    entities = np.r_[train[:, 0], train[train[:, 0] != train[:, 2], 2]]
    facts = np.bincount(entities, minlength=len(graph.entities))
    uses = np.bincount(train[:, 1], minlength=len(graph.predicates))
    only = np.stack([facts[triples[:, 0]], uses[triples[:, 1]], facts[triples[:, 2]]], axis=1) == 1
    words = ("subject", "predicate", "object")
    return [" and ".join(word for word, alone in zip(words, row, strict=True) if alone) for row in only.tolist()]
