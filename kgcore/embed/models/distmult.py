"""DistMult: a bilinear form with a diagonal matrix for each predicate."""

from torch import Tensor

from kgcore.embed.models.base import DotProduct, QueryModel
from kgcore.registries import MODELS


@MODELS.register("distmult")
class DistMult(QueryModel):
    """f(s, p, o) = sum_i r_i s_i o_i; symmetric in s and o.

    Yang et al., "Embedding Entities and Relations for Learning and Inference in Knowledge Bases", ICLR 2015.
    Embeddings: (k,) real for entities and predicates. Range: all reals.
    """

    scale = 0.5  # of order 1, because the gradient of a product of three small numbers is almost 0
    comparator = DotProduct()

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return subjects * predicates

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return predicates * objects
