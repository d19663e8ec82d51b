"""Triples of the small graph that are in none of its splits."""

import numpy as np

from kgcore.data.graph import KnowledgeGraph


def unused_triples(graph: KnowledgeGraph, count: int) -> np.ndarray:
    """Return the first `count` triples of the small graph that none of its splits has."""
    index = graph.index(graph.train.triples, graph.valid.triples, graph.test.triples)
    every = np.array([(s, p, o) for s in range(10) for p in range(3) for o in range(40) if s != o])
    return every[~index.contains(every)][:count]
