"""RotatE: a predicate rotates every complex component of the subject towards the object."""

import math

import torch
from torch import Tensor

from kgcore.models.base import QueryModel
from kgcore.models.comparators import Comparator
from kgcore.registries import MODELS


class ModulusDistance(Comparator):
    """The score -sum_i |q_i - e_i| of (k,) complex vectors, stored as (2k,) real, real parts first."""

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        re, im = (queries - entities).chunk(2, -1)
        return -(re.square() + im.square() + 1e-12).sqrt().sum(-1)


@MODELS.register("rotate")
class RotatE(QueryModel):
    """f(s, p, o) = -sum_i |r_i s_i - o_i|, r_i = exp(i phase_i).

    Sun et al., "RotatE: Knowledge Graph Embedding by Relational Rotation in Complex Space", ICLR 2019.
    Embeddings: entities (k,) complex, stored as (2k,) real, real parts first; predicates (k,) phases in radians.
    Range: (-inf, 0]. As queries: |r s - o| = |s - conj(r) o|, for |r| = 1.
    """

    predicate_scale = math.pi  # initial phases are uniform on the circle
    comparator = ModulusDistance()

    @property
    def entity_width(self) -> int:
        return 2 * self.k

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        re, im = subjects.chunk(2, -1)
        cos, sin = predicates.cos(), predicates.sin()
        return torch.cat([re * cos - im * sin, re * sin + im * cos], -1)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        return self.object_query(objects, -predicates)
