"""The part of the training graph that the encoded embeddings of some entities depend on."""

import torch
from torch import Tensor


def around(wanted: Tensor, hops: int, entities: int, triples: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entities (m,), ascending, and the triples (n', 3) that a `GraphModel` needs to encode the wanted ones.

    Each layer of a model adds to an object something of its subjects. With h layers, an entity sees the subjects that
    are at most h triples away. The result has these, and the triples whose objects are at most h - 1 triples away.

    wanted    ids of entities; some may occur more than once
    hops      h, at least 1
    entities  number of entities of the graph
    triples   (n, 3) the training split; those that are returned keep their order, with positions in m as ids

    The embeddings that a model makes from this part are right for the wanted entities, and only for these.
    """
    s, _, o = triples.unbind(1)
    known = torch.zeros(entities, dtype=torch.bool, device=triples.device)
    known[wanted] = True
    for _ in range(hops - 1):
        known[s[known[o]]] = True
    kept = triples[known[o]]
    known[kept[:, 0]] = True
    found = known.nonzero().squeeze(1)
    position = torch.empty(entities, dtype=torch.int64, device=triples.device)
    position[found] = torch.arange(len(found), device=triples.device)
    return found, torch.stack([position[kept[:, 0]], kept[:, 1], position[kept[:, 2]]], 1)
