"""A connected part of a graph that is nearly as dense as the graph: where a race of trainings is much cheaper.

Random triples, or all triples among random entities, would have fewer facts for each entity than the graph. A fire that
spreads from entity to entity keeps most of them (Leskovec & Faloutsos, "Sampling from Large Graphs", KDD 2006).
"""

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.data.graph import KnowledgeGraph, Split

SPREAD = 10  # neighbours that each entity on fire sets on fire, at most
STARTS = 500  # validation triples whose entities burn first, at most


def neighbourhood(graph: KnowledgeGraph, most: int, rng: np.random.Generator) -> KnowledgeGraph:
    """Return the facts of all splits among some of the entities, with at most `most` training triples.

    most  at least 1. A graph that has not more training triples is returned as it is

    A fire starts at the entities of STARTS random validation triples, or training triples if there are no others. An
    entity on fire sets SPREAD random neighbours in train on fire, in rounds. Where the fire ends, it starts again at
    random entities. The entities are those that burn first, if they have a training triple among them. They have the
    order of the graph, and new positions; predicates keep theirs. Time and memory are linear in the number of training
    triples.
    """
    if len(graph.train) <= most:
        return graph
    burnt = _burnt(graph, most, rng)
    later = np.maximum(burnt[graph.train.triples[:, 0]], burnt[graph.train.triples[:, 2]])
    limit = np.partition(later, most)[most]  # the entity that burns at this time brings too many triples
    kept: Bools = np.zeros(len(burnt), dtype=bool)
    kept[graph.train.triples[later < limit][:, [0, 2]]] = True
    place = np.cumsum(kept) - 1

    def moved(triples: Triples) -> Triples:
        return np.stack([place[triples[:, 0]], triples[:, 1], place[triples[:, 2]]], axis=1)

    def among(triples: Triples) -> Bools:
        inside: Bools = kept[triples[:, 0]] & kept[triples[:, 2]]
        return inside

    def within(split: Split) -> Split:
        rows = split.part(among(split.triples))
        return Split(moved(rows.triples), rows.labels, rows.confidences)

    entities = [graph.entities[number] for number in np.flatnonzero(kept).tolist()]
    others = graph.other_facts[among(graph.other_facts)]
    splits = within(graph.train), within(graph.valid), within(graph.test)
    return KnowledgeGraph(
        graph.name,
        entities,
        graph.predicates,
        *splits,
        moved(others),
        labelled_base_rate=graph.labelled_base_rate,
        twins_together=graph.twins_together,
    )


def _burnt(graph: KnowledgeGraph, most: int, rng: np.random.Generator) -> Ints:
    """Return the times (E,) at which entities burn, all different, and larger than all others if they never do."""
    size, triples = len(graph.entities), graph.train.triples
    start, neighbours = _neighbours(triples, size)
    burnt = np.full(size, size)
    held_out = graph.valid.triples if len(graph.valid) else triples
    lit = np.unique(held_out[rng.permutation(len(held_out))[:STARTS]][:, [0, 2]])
    spare, time = rng.permutation(size), 0
    while True:
        burning = rng.permutation(lit[burnt[lit] == size])
        burnt[burning] = time + np.arange(len(burning))
        time += len(burning)
        on_fire = burnt < size
        if time == size or (on_fire[triples[:, 0]] & on_fire[triples[:, 2]]).sum() > most:
            break
        degree = start[burning + 1] - start[burning]
        burning, degree = burning[degree > 0], degree[degree > 0]
        drawn = (rng.random((len(burning), SPREAD)) * degree[:, None]).astype(np.int64)
        lit = np.unique(neighbours[start[burning][:, None] + drawn])
        if not (burnt[lit] == size).any():
            spare = spare[burnt[spare] == size]
            lit = spare[: max(STARTS, time // 10)]  # more and more, so that rounds are few
    burnt[burnt == size] = size + np.arange((burnt == size).sum())
    return burnt


def _neighbours(triples: Triples, size: int) -> tuple[Ints, Ints]:
    """Return the first place (E + 1,) of each entity's neighbours in an array, and this array (2 n,)."""
    ends, others = triples[:, [0, 2]].ravel(), triples[:, [2, 0]].ravel()
    start = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=size))])
    return start, others[np.argsort(ends, kind="stable")]
