"""A graph of seven named entities, for tests of evidence from names."""

import numpy as np
import torch

from kgcore.arrays import Triples
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features

NAMES = ("red_deer_1", "roe_deer_1", "deer_1", "sika_deer_1", "animal_1", "rock_1", "Q42")
FACTS = np.array([[0, 0, 2], [1, 0, 2], [3, 0, 2], [2, 0, 4], [4, 1, 2]])
GROUPS = ("name_roles", "name_pairs", "name_likeness", "name_embeddings")


def source_of(facts: Triples = FACTS) -> Source:
    """Return a graph with these training facts, and a model with random numbers."""
    train = Split(facts, np.ones(len(facts)))
    graph = KnowledgeGraph("deer", list(NAMES), ["p0", "p1"], train, train, train)
    return Source(graph, model_of(len(NAMES)))


def model_of(entities: int) -> TrainedModel:
    """Return a model with random numbers, for two predicates."""
    rng = np.random.default_rng(0)
    tables = (torch.from_numpy(rng.normal(size=(rows, 8)).astype(np.float32)) for rows in (entities, 2))
    return TrainedModel("transe", 8, Embeddings(*tables))


def features_of(*groups: str) -> Features:
    return Features.of(source_of(), groups)


def column(ready: Features, name: str, triples: list[tuple[int, int, int]]) -> float:
    """Return one feature of the first triple."""
    found = ready.evidence(np.array(triples))
    return float(found.values[0, found.names.index(name)])
