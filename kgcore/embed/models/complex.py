"""ComplEx: DistMult over the complex numbers, which also models predicates that are not symmetric."""

import torch
from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.registries import MODELS


@MODELS.register("complex")
class ComplEx(QueryModel):
    """f(s, p, o) = Re(sum_i r_i s_i conj(o_i)).

    Trouillon et al., "Complex Embeddings for Simple Link Prediction", ICML 2016.
    Embeddings: (k,) complex, stored as (2k,) real, real parts first. Range: all reals.
    As queries: Re(<s r, o>) = (s r) . o and Re(<s, conj(r) o>) = s . (conj(r) o), dot products of the real vectors.
    """

    scale = 0.5  # of order 1, because the gradient of a product of three small numbers is almost 0
    factor = 1.0  # of the score
    entity_parts = predicate_parts = 2
    comparator = DotProduct()

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        (s, s_im), (r, r_im) = subjects.chunk(2, -1), predicates.chunk(2, -1)
        return torch.cat([s * r - s_im * r_im, s * r_im + s_im * r], -1) * self.factor

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        (r, r_im), (o, o_im) = predicates.chunk(2, -1), objects.chunk(2, -1)
        return torch.cat([r * o + r_im * o_im, r * o_im - r_im * o], -1) * self.factor
