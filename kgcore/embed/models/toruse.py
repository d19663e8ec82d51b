"""TorusE: TransE on a torus, which is compact, so that embeddings need no normalisation."""

from torch import Tensor

from kgcore.embed.models.base import Distance, QueryModel, check_norm
from kgcore.registries import MODELS


def _around(difference: Tensor) -> Tensor:
    """Return twice the signed distance on the circle, in [-1, 1]."""
    return 2 * (difference - difference.round().detach())


def torus1(difference: Tensor) -> Tensor:
    """Return sum_i 2 d_i."""
    return _around(difference).abs().sum(-1)


def torus2(difference: Tensor) -> Tensor:
    """Return sum_i (2 d_i)^2."""
    return _around(difference).square().sum(-1)


class TorusDistance(Distance):
    """The score -sum_i (2 d_i)^n, where n = 1 or 2, and d_i in [0, 1/2] is the distance of q_i and e_i on a circle.

    The circle has length 1. The torus is a product of such circles.

    Raises InputError if n is neither 1 nor 2.
    """

    def __init__(self, norm: float) -> None:
        self.distance = torus1 if check_norm(norm) == 1 else torus2
        self.name = f"torus{norm:g}"


@MODELS.register("toruse")
class TorusE(QueryModel):
    """f(s, p, o) = -2 d_1(s + r, o) or -(2 d_2(s + r, o))^2, where d_n is the n-norm distance on the torus (R / Z)^k.

    Ebisu & Ichise, "TorusE: Knowledge Graph Embedding on a Lie Group", AAAI 2018.
    Embeddings: (k,) real for entities and predicates, modulo 1. Range: [-k, 0].

    norm  n, 1 or 2
    """

    scale = 0.5  # initial embeddings are uniform on the torus
    can_drop = False  # 0 is a point on the torus like any other

    def __init__(self, k: int, norm: float = 1) -> None:
        super().__init__(k)
        self.comparator = TorusDistance(norm)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return subjects + predicates

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return objects - predicates
