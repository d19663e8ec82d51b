"""The features of paths, compared with their definition: all paths of a small graph, one by one."""

from collections import Counter
from math import log1p, prod

import numpy as np
import pytest
import torch

from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from tests.core.drawn import graph_of

ENTITIES, PREDICATES = 5, 2
Fact = tuple[int, int, int]
Kinds = tuple[tuple[int, bool], ...]


def all_paths(facts: set[Fact], length: int) -> dict[tuple[int, int], list[Kinds]]:
    """Return (s, o) -> the type of each path: the predicate of each fact, and whether it is passed backwards."""
    links = [(x, (p, False), y) for x, p, y in facts] + [(y, (p, True), x) for x, p, y in facts]
    paths: list[tuple[tuple[int, ...], Kinds]] = [((entity,), ()) for entity in range(ENTITIES)]
    for _ in range(length):
        paths = [
            ((*places, y), (*kinds, kind))
            for places, kinds in paths
            for x, kind, y in links
            if x == places[-1] and y not in places
        ]
    joined: dict[tuple[int, int], list[Kinds]] = {}
    for places, kinds in paths:
        joined.setdefault((places[0], places[-1]), []).append(kinds)
    return joined


def shuffled(facts: set[Fact]) -> list[Fact]:
    """Return each subject of a predicate with the objects a quarter, a half and three quarters of its list away."""
    pairs = []
    for predicate in range(PREDICATES):
        listed = sorted(fact for fact in facts if fact[1] == predicate)
        for place, (s, p, _) in enumerate(listed):
            pairs += [(s, p, listed[(place + len(listed) * quarter // 4) % len(listed)][2]) for quarter in (1, 2, 3)]
    return [pair for pair in pairs if pair not in facts]


def defined(facts: set[Fact], paths: dict[tuple[int, int], list[Kinds]], triple: Fact) -> list[float]:
    """Return the features of paths of one length, by the formula in the docstring of Paths."""
    s, p, o = triple
    right = [(x, y) for x, q, y in facts - {triple} if q == p]
    wrong = [(x, y) for x, q, y in shuffled(facts) if q == p]
    n, m = (Counter(kinds for pair in pairs for kinds in set(paths.get(pair, []))) for pairs in (right, wrong))
    types = paths.get((s, o), [])
    confidences = [n[kinds] / (n[kinds] + m[kinds] / 3 + 1) for kinds in types]
    any_of = 1 - prod(1 - confidence for confidence in confidences)
    return [max(confidences, default=0.0), any_of, log1p(len(types))]


@pytest.mark.parametrize("seed", range(6))
def test_the_features_are_those_of_all_paths(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgcore.evidence.pairs.MOST_THREE", 100)  # all links are followed
    drawn = np.random.default_rng(seed).integers(0, (ENTITIES, PREDICATES, ENTITIES), (16, 3))
    facts = {(s, p, o) for s, p, o in drawn.tolist()} | {(0, PREDICATES - 1, 1)}  # the graph has all predicates
    trained = TrainedModel("distmult", 1, Embeddings(torch.ones(ENTITIES, 1), torch.ones(PREDICATES, 1)))
    group = Features.of(Source(graph_of(sorted(facts), ENTITIES), trained), ["paths"]).groups["paths"]
    triples = list(np.ndindex(ENTITIES, PREDICATES, ENTITIES))
    two, three = (all_paths(facts, length) for length in (2, 3))
    expected = [defined(facts, two, triple) + defined(facts, three, triple) for triple in triples]
    np.testing.assert_allclose(group.values(np.array(triples)), expected, atol=1e-6)
