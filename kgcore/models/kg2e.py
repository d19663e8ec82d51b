"""KG2E: entities and predicates are Gaussian distributions."""

import math

from torch import Tensor
from torch.nn.functional import softplus

from kgcore.models.base import Model
from kgcore.registries import MODELS

LEAST_VARIANCE = 0.05  # the published lower bound


def _gaussian(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the variance, (..., k) each, from rows (..., 2k)."""
    mean, spread = rows.chunk(2, -1)
    return mean, LEAST_VARIANCE + softplus(spread)


@MODELS.register("kg2e")
class KG2E(Model):
    """f(s, p, o) = -KL(E || R), or the logarithm of the integral of E(x) R(x) dx.

    R = N(m_r, V_r) is the predicate, and E = N(m_s - m_o, V_s + V_o) the difference of subject and object.

    -KL = -1/2 sum_i [V_e / V_r + (m_r - m_e)^2 / V_r - log(V_e / V_r) - 1]
    log likelihood = -1/2 sum_i [(m_e - m_r)^2 / (V_e + V_r) + log(2 pi (V_e + V_r))]

    He et al., "Learning to Represent Knowledge Graphs with Gaussian Embedding", CIKM 2015.
    Embeddings: (2k,) real for entities and predicates: k means, then k numbers x that give the diagonal of the
    covariance as 0.05 + log(1 + e^x). Range: (-inf, 0], or all reals for the likelihood.
    This is no `QueryModel`, because V_s + V_o does not factor into a query and a comparison.

    likelihood  whether the score is the logarithm of the expected likelihood; false = the negative divergence
    """

    can_drop = False  # half of the numbers give variances, where 0 is a number like any other

    def __init__(self, k: int, likelihood: bool = False) -> None:
        super().__init__(k)
        self.likelihood = likelihood

    @property
    def entity_width(self) -> int:
        return 2 * self.k

    @property
    def predicate_width(self) -> int:
        return 2 * self.k

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        (m_s, v_s), (m_r, v_r), (m_o, v_o) = _gaussian(subjects), _gaussian(predicates), _gaussian(objects)
        squared, v_e = (m_s - m_o - m_r).square(), v_s + v_o
        if self.likelihood:
            return -(squared / (v_e + v_r) + (2 * math.pi * (v_e + v_r)).log()).sum(-1) / 2
        return -((v_e + squared) / v_r - (v_e / v_r).log() - 1).sum(-1) / 2
