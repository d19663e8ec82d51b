"""Small graphs and strategies for tests of corruptions."""

import numpy as np
import torch

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Strategy
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.registries import STRATEGIES


def drawing(name: str, graph: KnowledgeGraph) -> Strategy:
    """Return the strategy after it has seen a model with random numbers."""
    strategy, rng = STRATEGIES.get(name)(graph), np.random.default_rng(3)
    tables = (rng.normal(size=(rows, 8)).astype(np.float32) for rows in (len(graph.entities), len(graph.predicates)))
    strategy.see(TrainedModel("transe", 8, Embeddings(*map(torch.from_numpy, tables), {})))
    return strategy


def graph_of(train: list[tuple[int, int, int]], entities: int) -> KnowledgeGraph:
    triples = np.array(train)
    split = Split(triples, np.ones(len(triples)))
    predicates = [f"p{i}" for i in range(triples[:, 1].max() + 1)]
    return KnowledgeGraph("made", [f"e{i}" for i in range(entities)], predicates, split, split, split)
