"""The known facts nearest to a triple, compared with a search through all facts."""

import numpy as np
import pytest
import torch

from kgcore.answer.similar import SPLITS, NearestFacts
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel

ENTITIES, PREDICATES = 9, 3


@pytest.fixture
def nearest(rng: np.random.Generator) -> NearestFacts:
    """Return the search in a graph whose splits share facts."""
    triples = rng.integers(0, (ENTITIES, PREDICATES, ENTITIES), (120, 3))
    train, valid, test = (Split(triples[start : start + 45], np.ones(45)) for start in (0, 25, 50))
    names = [f"e{i}" for i in range(ENTITIES)], [f"p{i}" for i in range(PREDICATES)]
    graph = KnowledgeGraph("shared", *names, train, valid, test, triples[80:])
    tables = (torch.from_numpy(rng.normal(size=(size, 5)).astype(np.float32)) for size in (ENTITIES, PREDICATES))
    return NearestFacts(TrainedModel("distmult", 5, Embeddings(*tables)), graph)


def test_the_groups_have_every_fact_of_the_predicate_once(nearest: NearestFacts) -> None:
    graph = nearest.graph
    parts = (graph.train.positives, graph.valid.positives, graph.test.positives, graph.other_facts)
    split_of: dict[tuple[int, ...], str] = {}
    for name, part in zip(SPLITS, parts, strict=True):
        for row in part.tolist():
            split_of.setdefault(tuple(row), name)
    assert set(split_of.values()) == set(SPLITS)
    assert sum(len(part) for part in parts) > len(split_of)  # some facts are in several splits
    table = nearest.trained.embeddings.entities.numpy().astype(float)
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    cosine = unit @ unit.T
    for s, p, o in np.ndindex(ENTITIES, PREDICATES, ENTITIES):
        found, split = nearest.of((s, p, o), most=4), split_of.get((s, p, o), "")
        assert nearest.split_of((s, p, o)) == split
        of_predicate = [fact for fact in split_of if fact[1] == p and fact != (s, p, o)]
        for group, of_group in (
            (found.same_subject, [fact for fact in of_predicate if fact[0] == s]),
            (found.same_object, [fact for fact in of_predicate if fact[2] == o]),
            (found.others, [fact for fact in of_predicate if fact[0] != s and fact[2] != o]),
        ):
            assert group.count == len(of_group)
            if s == o:
                continue  # a fact and its reverse are equally near
            best = sorted(of_group, key=lambda fact: -(cosine[s, fact[0]] + cosine[o, fact[2]]))[:4]
            names = [(graph.entities[x], graph.entities[y], split_of[x, p, y]) for x, _, y in best]
            assert [(fact.subject, fact.object, fact.split) for fact in group.nearest] == names
            similar = [(cosine[s, x] + cosine[o, y]) / 2 for x, _, y in best]
            assert [fact.similarity for fact in group.nearest] == pytest.approx(similar, abs=1e-6)
