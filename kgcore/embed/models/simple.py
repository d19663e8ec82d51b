"""SimplE: an entity has one vector as subject and one as object. Inverse predicates link the two."""

import torch
from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.registries import MODELS


@MODELS.register("simple")
class SimplE(QueryModel):
    """f(s, p, o) = 1/2 (sum_i h(s)_i r_i t(o)_i + sum_i h(o)_i r'_i t(s)_i), where r' is the inverse predicate.

    Kazemi & Poole, "SimplE Embedding for Link Prediction in Knowledge Graphs", NeurIPS 2018.
    Embeddings: entities (2k,) = h, t; predicates (2k,) = r, r'; all real. Range: all reals.
    """

    scale = 0.5  # of order 1, because the gradient of a product of three small numbers is almost 0
    entity_parts = predicate_parts = 2
    comparator = DotProduct()

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        (h, t), (r, inverse) = subjects.chunk(2, -1), predicates.chunk(2, -1)
        return torch.cat([inverse * t, h * r], -1) / 2

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        (r, inverse), (h, t) = predicates.chunk(2, -1), objects.chunk(2, -1)
        return torch.cat([r * t, h * inverse], -1) / 2
