"""TuckER: the product of subject, predicate and object with a core tensor that all triples share."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from kgcore.arrays import Floats
from kgcore.embed.models.base import CHOSEN_FROM_K, Chosen, whole
from kgcore.embed.models.bilinear import BilinearModel
from kgcore.registries import MODELS


def _outer(a: Tensor, b: Tensor) -> Tensor:
    """Return all products a_i b_j: (..., m), (..., n) -> (..., m n)."""
    return (a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(-2)


@MODELS.register("tucker")
class TuckER(BilinearModel):
    """f(s, p, o) = sum_{abc} W_abc s_a r_b o_c.

    Balazevic et al., "TuckER: Tensor Factorization for Knowledge Graph Completion", EMNLP 2019, equation 2. The
    scoring function has neither dropout nor batch normalisation.
    Embeddings: entities (k,), predicates (predicate_size,); shared: core (k, predicate_size, k). Range: all reals.

    predicate_size  size of a predicate's embedding; by default k, but at most 30, the authors' choice on WN18, WN18RR
    """

    scale = 0.2  # of order 1, because the gradient of a product of small numbers is almost 0

    def __init__(self, k: int, predicate_size: float | Chosen = CHOSEN_FROM_K) -> None:
        super().__init__(k)
        self._predicate_size = (
            min(k, 30) if predicate_size is CHOSEN_FROM_K else whole("predicate_size", predicate_size)
        )

    @property
    def predicate_width(self) -> int:
        return self._predicate_size

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        return {"core": rng.uniform(-1, 1, (self.k, self._predicate_size, self.k))}

    def matrices(self, predicates: Tensor) -> Tensor:
        core = self.shared["core"]
        return (predicates @ core.transpose(0, 1).flatten(1)).reshape(*predicates.shape[:-1], self.k, self.k)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return _outer(subjects, predicates) @ self.shared["core"].flatten(0, 1)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return _outer(predicates, objects) @ self.shared["core"].flatten(1, 2).mT
