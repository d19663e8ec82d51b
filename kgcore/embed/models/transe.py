"""TransE: a predicate is a translation from subject to object."""

from torch import Tensor

from kgcore.embed.models.base import NegativeDistance, QueryModel
from kgcore.registries import MODELS


@MODELS.register("transe")
class TransE(QueryModel):
    """f(s, p, o) = -||e_s + r_p - e_o||_n, with n = 1 as in the published code, or 2.

    Bordes et al., "Translating Embeddings for Modeling Multi-relational Data", NIPS 2013; paper, section 3.
    Embeddings: (k,) real for entities and predicates. Range: (-inf, 0].

    norm  n, 1 or 2
    """

    def __init__(self, k: int, norm: float = 1) -> None:
        super().__init__(k)
        self.comparator = NegativeDistance(norm)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return subjects + predicates

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return objects - predicates
