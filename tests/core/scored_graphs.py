"""Graphs whose score of every triple is chosen, for the tests of discovery."""

import numpy as np
import torch

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel


def table_model(scores: np.ndarray, predicates: int) -> TrainedModel:
    """Return a model with score(s, p, o) = scores[s, o] for every predicate.

    scores  (n, m) for the subjects 0 to n - 1 and the objects n to n + m - 1. DistMult computes it: an object is a unit
            vector, a subject the row of its scores, a predicate all ones
    """
    rows, columns = scores.shape
    entities = torch.cat([torch.tensor(scores, dtype=torch.float32), torch.eye(columns)])
    assert len(entities) == rows + columns
    return TrainedModel("distmult", columns, Embeddings(entities, torch.ones(predicates, columns)))


def functional_graph(
    rng: np.random.Generator, subjects: int, objects: int, boost: float
) -> tuple[TrainedModel, KnowledgeGraph, np.ndarray]:
    """Return a model, a graph of one functional predicate and a second one that all subjects have, and the truth.

    A third of the subjects has its fact in train, a quarter in valid, an eighth in test; half of the others have a fact
    that is in no split, and half have none. Scores are normal; those of facts are higher by `boost`.

    truth  (subjects,) the object of each subject, -1 if it has none
    """
    truth = subjects + rng.integers(objects, size=subjects)
    role = rng.choice(5, size=subjects, p=[1 / 3, 1 / 4, 1 / 8, 7 / 48, 7 / 48])  # train, valid, test, hidden, none
    truth[role == 4] = -1
    scores = rng.normal(size=(subjects, objects))
    has = np.flatnonzero(truth >= 0)
    scores[has, truth[has] - subjects] += boost

    def split(own: np.ndarray) -> Split:
        rows = np.flatnonzero(own)
        return Split(np.stack([rows, np.zeros(len(rows), dtype=int), truth[rows]], axis=1), np.ones(len(rows)))

    people = np.arange(subjects)
    second = np.stack([people, np.ones(subjects, dtype=int), subjects + people % objects], axis=1)
    train = split(role == 0)
    graph = KnowledgeGraph(
        "functional",
        [f"e{i}" for i in range(subjects + objects)],
        ["born_in", "lives_in"],
        Split(np.concatenate([train.triples, second]), np.ones(len(train) + subjects)),
        split(role == 1),
        split(role == 2),
    )
    return table_model(scores, 2), graph, truth
