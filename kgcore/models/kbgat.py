"""KBGAT: an entity is encoded by attention over its neighbours in the training graph, and ConvKB scores the result."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import elu, leaky_relu

from kgcore.arrays import Floats
from kgcore.models.base import GraphModel
from kgcore.models.convkb import ConvKB
from kgcore.models.options import whole
from kgcore.registries import MODELS


def _attend(entities: Tensor, predicates: Tensor, triples: Tensor, weights: Tensor, attention: Tensor) -> Tensor:
    """Return, for each entity o, the weighted mean of c = W [o; s; p] over the triples (s, p, o): (E, heads, k).

    The weights are the softmax of leaky_relu(a . c). An entity that is never an object gets 0.

    entities (E, m); predicates (R, r); triples (n, 3); weights W (heads, m + m + r, k); attention a (heads, k)
    """
    (count, width), (s, p, o) = entities.shape, triples.unbind(1)
    parts = torch.split(weights, [width, width, predicates.shape[1]], 1)
    (
        of_o,
        of_s,
        of_p,
    ) = (  # the three terms of W [o; s; p], each computed once per row of a table, not once per triple
        torch.einsum("ni,hik->nhk", table, part)
        for table, part in zip((entities, entities, predicates), parts, strict=True)
    )
    a_o, a_s, a_p = ((table * attention).sum(-1) for table in (of_o, of_s, of_p))
    logits = leaky_relu(a_o.index_select(0, o) + a_s.index_select(0, s) + a_p.index_select(0, p), 0.2)
    largest = logits.new_full((count, len(attention)), -torch.inf)
    largest = largest.scatter_reduce(0, o.unsqueeze(1).expand_as(logits), logits.detach(), "amax")
    shares = (logits - largest.index_select(0, o)).exp()
    total = torch.zeros_like(largest).index_add(0, o, shares)
    shares = shares / total.index_select(0, o)
    messages = (of_s.index_select(0, s) + of_p.index_select(0, p)) * shares.unsqueeze(-1)
    return (of_o * (total > 0).unsqueeze(-1)).index_add(0, o, messages)


@MODELS.register("kbgat")
class KBGAT(ConvKB, GraphModel):
    """f(s, p, o) = ConvKB's score of the encoded embeddings e', r':

    h_o = elu(sum_{(s, p, o)} alpha c) for every head, with c = W [e_o; e_s; r_p] and alpha the softmax of
    leaky_relu(a . c) over the triples of o; r' = r W_r. A second layer of one head maps the concatenated heads h and
    r' to k numbers h' in the same way. e' = e W_e + h'.

    Nathani et al., "Learning Attention-based Embeddings for Relation Prediction in Knowledge Graphs", ACL 2019. As in
    the authors' code, an object gathers from its subjects, and the layers have the same shapes. In contrast to
    their code, encoder and decoder are trained together with any loss, not the encoder first with TransE's score. There
    are no auxiliary edges for paths of two triples, no dropout and no unit norms, and initial embeddings are random.
    Embeddings: (k,) real for entities and predicates, stored as encoded; shared: ConvKB's numbers, and the encoder's W,
    a, W_r and W_e. Range: all reals.
    Every step encodes the whole training graph of n triples, with a few tensors of n x heads x k numbers: use large
    batches.

    filters  number of ConvKB's filters
    heads    number of heads of the first layer, 2 as in the authors' code; the second layer has one
    """

    def __init__(self, k: int, filters: float = 32, heads: float = 2) -> None:
        super().__init__(k, filters)
        self.heads = whole("heads", heads)

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        def uniform(*shape: int) -> Floats:
            return rng.uniform(-1, 1, shape) * math.sqrt(6 / sum(shape[-2:]))

        k, joined = self.k, self.heads * self.k
        encoder = {
            "weights1": uniform(self.heads, 3 * k, k),
            "attention1": uniform(self.heads, k),
            "weights2": uniform(1, 2 * joined + k, k),
            "attention2": uniform(1, k),
            "predicate_map": uniform(k, k),
            "entity_map": uniform(k, k),
        }
        return dict(super().initial_shared(rng)) | {f"encoder.{name}": start for name, start in encoder.items()}

    def encode(self, entities: Tensor, predicates: Tensor, triples: Tensor) -> tuple[Tensor, Tensor]:
        shared = {name.removeprefix("encoder."): tensor for name, tensor in self.shared.items()}
        heads = _attend(entities, predicates, triples, shared["weights1"], shared["attention1"])
        predicates = predicates @ shared["predicate_map"]
        joined = elu(heads).flatten(1)
        [gathered] = _attend(joined, predicates, triples, shared["weights2"], shared["attention2"]).unbind(1)
        return entities @ shared["entity_map"] + elu(gathered), predicates
