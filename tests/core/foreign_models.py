"""Tables of models of other libraries for tests, in another order than the graph, and formulas of their scores."""

from collections.abc import Callable

import numpy as np

from kgcore.graph import KnowledgeGraph, Split
from kgcore.imports.embeddings import Foreign, import_model

ENTITIES, PREDICATES = ("a", "b", "c", "d"), ("likes", "owns")
FILE_ENTITIES, FILE_PREDICATES = ("d", "unused", "b", "a", "c"), ("owns", "likes")
TRIPLES = np.array([[s, p, o] for s in range(4) for p in range(2) for o in range(4)])
K = 6
RNG = np.random.default_rng(3)
E, R = RNG.normal(size=(5, K)).astype(np.float32), RNG.normal(size=(2, K)).astype(np.float32)
PHASES = RNG.uniform(-2, 2, size=(2, K // 2)).astype(np.float32)
Formula = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def graph() -> KnowledgeGraph:
    split = Split(TRIPLES, np.ones(len(TRIPLES)))
    return KnowledgeGraph("toy", ENTITIES, PREDICATES, split, split, split)


def check(foreign: Foreign, relations: np.ndarray, formula: Formula, constant: float = 0.0) -> None:
    """Assert that the scores of the graph's triples are those of the formula, for the rows with these names."""
    expected = [
        formula(
            E[FILE_ENTITIES.index(ENTITIES[s])].astype(np.float64),
            relations[FILE_PREDICATES.index(PREDICATES[p])].astype(np.float64),
            E[FILE_ENTITIES.index(ENTITIES[o])].astype(np.float64),
        )
        for s, p, o in TRIPLES
    ]
    imported = import_model(foreign, graph())
    assert (imported.unused_entities, imported.unused_relations) == (1, 0)
    np.testing.assert_allclose(imported.model.score(TRIPLES) + constant, expected, atol=1e-5, rtol=0)


def sum_of_products(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    return sum(h[i] * r[i] * t[i] for i in range(K))


def four_products(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    """ComplEx in real numbers (Trouillon et al. 2016, equation 11): the first half of a row has the real parts."""
    n = K // 2
    return sum(
        h[i] * r[i] * t[i] + h[n + i] * r[i] * t[n + i] + h[i] * r[n + i] * t[n + i] - h[n + i] * r[n + i] * t[i]
        for i in range(n)
    )


def rotation(scale: float, power: int) -> Formula:
    """Return the distance after a rotation by `scale` times the numbers of the relation, in real numbers."""

    def distance(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
        n, angle = K // 2, r * scale
        re = h[:n] * np.cos(angle) - h[n:] * np.sin(angle) - t[:n]
        im = h[:n] * np.sin(angle) + h[n:] * np.cos(angle) - t[n:]
        return -float((np.sqrt(re**2 + im**2) ** power).sum() ** (1 / power))

    return distance


def translation(power: int) -> Formula:
    return lambda h, r, t: -(sum(abs(h[i] + r[i] - t[i]) ** power for i in range(K)) ** (1 / power))
