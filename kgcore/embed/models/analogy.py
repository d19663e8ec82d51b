"""ANALOGY: a predicate is a normal matrix. Half of it is diagonal, and half consists of scaled 2 x 2 rotations."""

import torch
from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.embed.models.complex import ComplEx
from kgcore.registries import MODELS


@MODELS.register("analogy")
class Analogy(QueryModel):
    """f(s, p, o) = sum_{i <= 2k} r_i s_i o_i + Re(sum_{j <= k} r'_j s'_j conj(o'_j)): DistMult plus ComplEx.

    Liu et al., "Analogical Inference for Multi-relational Embeddings", ICML 2017; half of the numbers are scalars and
    half are blocks, as in the authors' code.
    Embeddings: (4k,) real for entities and predicates: 2k scalars, then k complex numbers, real parts first.
    Range: all reals.
    """

    scale = 0.5  # of order 1, because the gradient of a product of three small numbers is almost 0
    entity_parts = predicate_parts = 4
    comparator = DotProduct()

    def __init__(self, k: int) -> None:
        super().__init__(k)
        self._blocks = ComplEx(k)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        (s, s_blocks), (r, r_blocks) = subjects.chunk(2, -1), predicates.chunk(2, -1)
        return torch.cat([s * r, self._blocks.object_query(s_blocks, r_blocks)], -1)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        (r, r_blocks), (o, o_blocks) = predicates.chunk(2, -1), objects.chunk(2, -1)
        return torch.cat([r * o, self._blocks.subject_query(r_blocks, o_blocks)], -1)
