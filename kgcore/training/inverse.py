"""Inverse predicates, with which training uses every triple in both directions."""

from dataclasses import replace

import numpy as np

from kgcore.arrays import Triples
from kgcore.graph import KnowledgeGraph, Split


def with_inverses(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return a copy of the graph that also has the triple (o, p', s) for each triple (s, p, o).

    The inverse p' of predicate p has the id p + R, where R is the number of predicates. The test split is empty.

    Lacroix et al., ICML 2018, section 4.1.
    """
    count = len(graph.predicates)

    def both(triples: Triples) -> Triples:
        return np.concatenate([triples, triples[:, ::-1] + [0, count, 0]])

    def twice(split: Split) -> Split:
        confidences = None if split.confidences is None else np.tile(split.confidences, 2)
        return Split(both(split.triples), np.tile(split.labels, 2), confidences)

    return replace(
        graph,
        predicates=[*graph.predicates, *(f"{name}\u207b\u00b9" for name in graph.predicates)],
        train=twice(graph.train),
        valid=twice(graph.valid),
        test=Split(np.zeros((0, 3), dtype=np.int64), np.zeros(0)),
        other_facts=both(graph.other_facts),
    )
