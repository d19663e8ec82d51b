"""RESCAL: a bilinear form with a full matrix for each predicate."""

from torch import Tensor

from kgcore.embed.models.bilinear import BilinearModel
from kgcore.registries import MODELS


@MODELS.register("rescal")
class RESCAL(BilinearModel):
    """f(s, p, o) = s^T R o.

    Nickel et al., "A Three-Way Model for Collective Learning on Multi-Relational Data", ICML 2011.
    Embeddings: entities (k,), predicates (k, k), stored row by row as (k k,), all real. Range: all reals.
    """

    scale = 0.3  # of order 1, because the gradient of a product of three small numbers is almost 0

    @property
    def predicate_width(self) -> int:
        return self.k * self.k

    def matrices(self, predicates: Tensor) -> Tensor:
        return predicates.reshape(*predicates.shape[:-1], self.k, self.k)
