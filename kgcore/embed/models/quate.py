"""QuatE: a predicate rotates the subject in four dimensions, by a quaternion product."""

import torch
from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.registries import MODELS


def hamilton(a: Tensor, b: Tensor) -> Tensor:
    """Return the products a_i b_i of k quaternions, stored as their 1, i, j and k parts: (..., 4k) each."""
    (a1, ai, aj, ak), (b1, bi, bj, bk) = a.chunk(4, -1), b.chunk(4, -1)
    one = a1 * b1 - ai * bi - aj * bj - ak * bk
    i = a1 * bi + ai * b1 + aj * bk - ak * bj
    j = a1 * bj - ai * bk + aj * b1 + ak * bi
    k = a1 * bk + ai * bj - aj * bi + ak * b1
    return torch.cat([one, i, j, k], -1)


@MODELS.register("quate")
class QuatE(QueryModel):
    """f(s, p, o) = sum_i (s_i (r_i / |r_i|)) . o_i, by the Hamilton product and the dot product of quaternions.

    Zhang et al., "Quaternion Knowledge Graph Embeddings", NeurIPS 2019, equations 6 to 8.
    Embeddings: (k,) quaternions for entities and predicates, stored as (4k,) real: k real parts, then the k parts
    of i, those of j and those of k. Range: all reals. As queries: (s r) . o = s . (o conj(r)).
    """

    scale = 0.3  # of order 1; predicates are scaled to length 1, so that a score is a product of two numbers
    entity_parts = predicate_parts = 4
    comparator = DotProduct()

    def _rotation(self, predicates: Tensor) -> Tensor:
        parts = predicates.reshape(*predicates.shape[:-1], 4, self.k)
        return (parts / (parts.square().sum(-2, keepdim=True) + 1e-12).sqrt()).flatten(-2)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return hamilton(subjects, self._rotation(predicates))

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        one, i, j, k = self._rotation(predicates).chunk(4, -1)
        return hamilton(objects, torch.cat([one, -i, -j, -k], -1))
