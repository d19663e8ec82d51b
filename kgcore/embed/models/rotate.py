"""RotatE: a predicate rotates every complex component of the subject towards the object."""

import math

import torch
from torch import Tensor

from kgcore.embed.models.base import Distance, NegativeDistance, QueryModel, check_norm
from kgcore.registries import MODELS


def modulus(difference: Tensor) -> Tensor:
    """Return sum_i |d_i| of complex differences d (..., 2k), real parts first."""
    re, im = difference.chunk(2, -1)
    return (re.square() + im.square() + 1e-12).sqrt().sum(-1)


class ModulusDistance(Distance):
    """The score -sum_i |q_i - e_i| of (k,) complex vectors, stored as (2k,) real, real parts first."""

    name = "modulus"
    distance = staticmethod(modulus)


@MODELS.register("rotate")
class RotatE(QueryModel):
    """f(s, p, o) = -(sum_i |r_i s_i - o_i|^n)^(1/n), r_i = exp(i phase_i), with n = 1 as in the published code, or 2.

    Sun et al., "RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space", ICLR 2019.
    Embeddings: entities (k,) complex, stored as (2k,) real, real parts first; predicates (k,) phases in radians.
    Range: (-inf, 0]. As queries: |r s - o| = |s - conj(r) o|, for |r| = 1.

    norm  n, 1 or 2 (as in PyKEEN)
    """

    predicate_scale = math.pi  # initial phases are uniform on the circle
    entity_parts = 2

    def __init__(self, k: int, norm: float = 1) -> None:
        super().__init__(k)
        self.comparator = ModulusDistance() if check_norm(norm) == 1 else NegativeDistance(norm)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        (re, im), cos, sin = subjects.chunk(2, -1), predicates.cos(), predicates.sin()
        return torch.cat([re * cos - im * sin, re * sin + im * cos], -1)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return self.object_query(objects, -predicates)
