"""A graph whose entities have names, and sources with every group of evidence, for the tests of tiles."""

import numpy as np
import torch

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.cohort import draw_cohort
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source, Tile

ENTITIES, PREDICATES, FACTS = 150, 3, 700
WORDS = ("red", "fox", "old", "foxes", "oak", "tree", "river", "boat")


def named_graph(seed: int) -> KnowledgeGraph:
    """Draw facts, some of them with one entity twice or in both directions; low numbers are frequent."""
    rng = np.random.default_rng(seed)
    ends = np.minimum(rng.geometric(0.03, size=(FACTS, 2)) - 1, ENTITIES - 1)
    facts = np.stack([ends[:, 0], rng.integers(PREDICATES, size=FACTS), ends[:, 1]], axis=1)
    facts = np.unique(np.concatenate([facts, facts[:30, ::-1] % [ENTITIES, PREDICATES, ENTITIES]]), axis=0)
    words = [rng.choice(WORDS, size=rng.integers(4), replace=False) for _ in range(ENTITIES)]
    names = ["_".join([*own, str(number)]) for number, own in enumerate(words)]
    split, nothing = Split(facts, np.ones(len(facts))), Split(facts[:0], np.zeros(0))
    return KnowledgeGraph("named", names, [f"p{i}" for i in range(PREDICATES)], split, nothing, nothing)


def model_of(graph: KnowledgeGraph, name: str, cohort: bool = False) -> TrainedModel:
    rng = np.random.default_rng(len(name))
    tables = (torch.from_numpy(rng.normal(size=(size, 8)).astype(np.float32)) for size in (ENTITIES, PREDICATES))
    drawn = draw_cohort(graph, 20, 0.7, 0.5, rng) if cohort else None
    return TrainedModel(name, 8, Embeddings(*tables), cohort=drawn)


def source_of(graph: KnowledgeGraph) -> Source:
    """Return a source with further models."""
    others = model_of(graph, "distmult"), model_of(graph, "transe")
    return Source(graph, model_of(graph, "transe", cohort=True), others)


def tile_of(source: Source, seed: int, shape: tuple[int, int] = (60, 90)) -> Tile:
    rng = np.random.default_rng(seed)
    subjects, objects = (rng.permutation(ENTITIES)[:size] for size in shape)
    return Tile(subjects, int(rng.integers(PREDICATES)), objects, source.facts)
