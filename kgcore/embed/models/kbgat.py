"""KBGAT: an entity is encoded by attention over its neighbours in the training graph, and ConvKB scores the result."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import elu, leaky_relu

from kgcore.arrays import Floats
from kgcore.embed.models.base import GraphModel, whole
from kgcore.embed.models.convkb import ConvKB
from kgcore.registries import MODELS

Terms = tuple[Tensor, Tensor, Tensor]


def attended(subjects: Tensor, predicates: Tensor, logits: Terms, triples: Tensor) -> Tensor:
    """Return, for each entity o, the sum of alpha (x_s + y_p) over the triples (s, p, o), for each head: (E, heads k).

    alpha is the softmax over the triples of o of leaky_relu(a_o + b_s + c_p), with the slope .2 below 0. An entity that
    is never an object gets 0.

    subjects    x (E, heads k), the k numbers of one head after the other
    predicates  y (R, heads k)
    logits      a (E, heads), b (E, heads), c (R, heads)
    triples     (n, 3)
    """
    (s, p, o), (count, heads) = triples.unbind(1), logits[0].shape
    rows = [term.index_select(0, places) for term, places in zip(logits, (o, s, p), strict=True)]
    logit = leaky_relu(rows[0] + rows[1] + rows[2], 0.2)
    largest = logit.new_full((count, heads), -torch.inf)
    largest = largest.scatter_reduce(0, o.unsqueeze(1).expand_as(logit), logit.detach(), "amax")
    shares = (logit - largest.index_select(0, o)).exp()
    shares = shares / torch.zeros_like(largest).index_add(0, o, shares).index_select(0, o)
    sums = (subjects.index_select(0, s) + predicates.index_select(0, p)).view(len(s), heads, subjects.shape[1] // heads)
    return torch.zeros_like(subjects).index_add(0, o, (sums * shares.unsqueeze(-1)).flatten(1))


def _attend(entities: Tensor, predicates: Tensor, triples: Tensor, weights: Tensor, attention: Tensor) -> Tensor:
    """Return, for each entity o, the weighted mean of c = W [o; s; p] over the triples (s, p, o): (E, heads k).

    The weights are the softmax of leaky_relu(a . c). An entity that is never an object gets 0.

    entities (E, m); predicates (R, r); triples (n, 3); weights W (heads, m + m + r, k); attention a (heads, k)

    The three terms of c and of a . c are computed once per row of a table, not once per triple.
    """
    width = entities.shape[1]
    maps = torch.split(weights.transpose(0, 1).flatten(1), [width, width, predicates.shape[1]])
    towards = torch.split(torch.einsum("hik,hk->ih", weights, attention), [width, width, predicates.shape[1]])
    of_o, of_s, of_p = (table @ own for table, own in zip((entities, entities, predicates), maps, strict=True))
    a_o, a_s, a_p = (table @ own for table, own in zip((entities, entities, predicates), towards, strict=True))
    has_triples = of_o.new_zeros(len(entities), 1).index_fill(0, triples[:, 2], 1)
    return of_o * has_triples + attended(of_s, of_p, (a_o, a_s, a_p), triples)


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
    Every step encodes all entities within two triples of the batch. In a dense graph these are most entities: use large
    batches there.

    filters  number of ConvKB's filters
    heads    number of heads of the first layer, 2 as in the authors' code; the second layer has one
    """

    hops = 2

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
        gathered = _attend(elu(heads), predicates, triples, shared["weights2"], shared["attention2"])
        return entities @ shared["entity_map"] + elu(gathered), predicates
