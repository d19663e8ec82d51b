"""TorusE: TransE on a torus, where a point cannot run away and needs no normalisation."""

from torch import Tensor

from kgcore.errors import InputError
from kgcore.models.base import Comparator, QueryModel
from kgcore.registries import MODELS


class TorusDistance(Comparator):
    """-sum_i (2 d_i)^n, d_i in [0, 1/2] the distance of q_i and e_i on a circle of length 1; n = 1 or 2."""

    def __init__(self, norm: float) -> None:
        if norm not in (1, 2):
            raise InputError(f"norm is {norm:g}: it must be 1 or 2")
        self.norm = norm

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        difference = queries - entities
        distance = 2 * (difference - difference.round().detach())
        return -(distance.abs() if self.norm == 1 else distance.square()).sum(-1)


@MODELS.register("toruse")
class TorusE(QueryModel):
    """f(s, p, o) = -2 d_1(s + r, o) or -(2 d_2(s + r, o))^2, d_n the n-norm distance on the torus (R / Z)^k.

    Ebisu & Ichise, "TorusE: Knowledge Graph Embedding on a Lie Group", AAAI 2018.
    Embeddings: (k,) real for entities and predicates, of which whole numbers do not matter. Range: [-k, 0].

    norm  1 or 2
    """

    scale = 0.5  # uniform on the torus
    can_drop = False  # 0 is a place on the torus

    def __init__(self, k: int, norm: float = 1) -> None:
        super().__init__(k)
        self.comparator = TorusDistance(norm)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return subjects + predicates

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return objects - predicates
