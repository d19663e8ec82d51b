"""RotatE: a predicate rotates every complex component of the subject towards the object."""

import math

import torch
from torch import Tensor

from kgcore.loops.queries import ROTATION
from kgcore.loops.rows import MODULUS
from kgcore.loops.scores import fits_loop, scored_by, turned_distances
from kgcore.loops.tiles import modulus_tile
from kgcore.models.base import Model, QueryModel
from kgcore.models.chunks import Moduli
from kgcore.models.comparators import Distance, NegativeDistance
from kgcore.models.options import check_norm
from kgcore.registries import MODELS


def modulus(difference: Tensor, dim: int) -> Tensor:
    """Return sum_i |d_i| of complex differences d, real parts first."""
    re, im = difference.chunk(2, dim)
    return (re.square() + im.square() + 1e-12).sqrt().sum(dim)


class ModulusDistance(Distance):
    """The score -sum_i |q_i - e_i| of (k,) complex vectors, stored as (2k,) real, real parts first."""

    distance = staticmethod(modulus)
    kernel = staticmethod(modulus_tile)
    kind, chunks = MODULUS, Moduli


@MODELS.register("rotate")
class RotatE(QueryModel):
    """f(s, p, o) = -(sum_i |r_i s_i - o_i|^n)^(1/n), r_i = exp(i phase_i), with n = 1 as in the published code, or 2.

    Sun et al., "RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space", ICLR 2019.
    Embeddings: entities (k,) complex, stored as (2k,) real, real parts first; predicates (k,) phases in radians.
    Range: (-inf, 0]. As queries: |r s - o| = |s - conj(r) o|, for |r| = 1.

    norm  n, 1 or 2 (as in PyKEEN)
    """

    predicate_scale = math.pi  # initial phases are uniform on the circle
    form = ROTATION
    compiles = False  # queries and distances have loops of their own

    def __init__(self, k: int, norm: float = 1) -> None:
        super().__init__(k)
        self.norm = norm
        self.comparator = ModulusDistance() if check_norm(norm) == 1 else NegativeDistance(norm)

    @property
    def entity_width(self) -> int:
        return 2 * self.k

    def prepared(self, predicates: Tensor) -> tuple[Model, Tensor]:
        return _Turns(self.k, self.norm), torch.cat([predicates.cos(), predicates.sin()], -1)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return _turned(subjects, predicates.cos(), predicates.sin())

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return self.object_query(objects, -predicates)


class _Turns(RotatE):
    """RotatE with the rotations r_i themselves for predicates: (2k,), real parts first."""

    @property
    def predicate_width(self) -> int:
        return 2 * self.k

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        if self.norm == 1 and fits_loop(subjects, predicates, objects):
            return -scored_by(turned_distances, subjects, predicates, objects)
        return super().score(subjects, predicates, objects)

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        return _turned(subjects, *predicates.chunk(2, -1))

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        cos, sin = predicates.chunk(2, -1)
        return _turned(objects, cos, -sin)


def _turned(points: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Return the products of complex numbers (..., 2k) and cos + i sin (..., k)."""
    re, im = points.chunk(2, -1)
    return torch.cat([re * cos - im * sin, re * sin + im * cos], -1)
