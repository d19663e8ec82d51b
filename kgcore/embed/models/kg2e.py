"""KG2E: entities and predicates are Gaussian distributions."""

import math

import torch
from torch import Tensor
from torch.nn.functional import softplus

from kgcore.embed.models.base import Comparator, QueryModel
from kgcore.registries import MODELS

LEAST_VARIANCE = 0.05  # the published lower bound


def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means and the variances of embeddings (..., 2k): (..., k) each."""
    mean, spread = rows.chunk(2, -1)
    return mean, LEAST_VARIANCE + softplus(spread)


class Likelihood(Comparator):
    """The logarithm of the integral of the product of two densities, N(m - m', v + v') and N(0, w).

    -1/2 sum_i [d_i^2 / V_i + log(2 pi V_i)], where V = v + v' + w and d = m - m'

    A query is (m, v, w), 3k numbers. An entity is an embedding of 2k numbers; its `moments` are (m', v').
    """

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        (mean, variance, weight), (other, own) = queries.chunk(3, -1), moments(entities)
        total = variance + own + weight
        return -((mean - other).square() / total + (2 * math.pi * total).log()).sum(-1) / 2


class Divergence(Comparator):
    """The negative Kullback-Leibler divergence of N(m - m', v + v') from N(0, w).

    -1/2 sum_i [(V_i + d_i^2) / w_i - log(V_i / w_i) - 1], where V = v + v' and d = m - m'

    Queries and entities are as in `Likelihood`.
    """

    name = "divergence"

    def pairs(self, queries: Tensor, entities: Tensor) -> Tensor:
        (mean, variance, weight), (other, own) = queries.chunk(3, -1), moments(entities)
        ratio = (variance + own) / weight
        return -(ratio - ratio.log() - 1 + (mean - other).square() / weight).sum(-1) / 2


@MODELS.register("kg2e")
class KG2E(QueryModel):
    """f(s, p, o) = -KL(E || R), or the logarithm of the integral of E(x) R(x) dx.

    R = N(m_r, V_r) is the predicate, and E = N(m_s - m_o, V_s + V_o) the difference of subject and object.

    -KL = -1/2 sum_i [V_e / V_r + (m_r - m_e)^2 / V_r - log(V_e / V_r) - 1]
    log likelihood = -1/2 sum_i [(m_e - m_r)^2 / (V_e + V_r) + log(2 pi (V_e + V_r))]

    He et al., "Learning to Represent Knowledge Graphs with Gaussian Embedding", CIKM 2015.
    Embeddings: (2k,) real for entities and predicates: k means, then k numbers x that give the diagonal of the
    covariance as 0.05 + log(1 + e^x). Range: (-inf, 0], or all reals for the likelihood.
    As queries: E - R is compared by (m_s - m_r, V_s, V_r) and the object, or by (m_o + m_r, V_o, V_r) and the subject.

    likelihood  whether the score is the logarithm of the expected likelihood; false = the negative divergence
    """

    can_drop = False  # half of the numbers give variances, where 0 is a number like any other
    entity_parts = predicate_parts = 2

    def __init__(self, k: int, likelihood: bool = False) -> None:
        super().__init__(k)
        self.likelihood = likelihood
        self.comparator = Likelihood() if likelihood else Divergence()

    def object_query(self, subjects: Tensor, predicates: Tensor) -> Tensor:
        (m_s, v_s), (m_r, v_r) = moments(subjects), moments(predicates)
        return torch.cat([m_s - m_r, v_s, v_r], -1)

    def subject_query(self, predicates: Tensor, objects: Tensor) -> Tensor:
        (m_r, v_r), (m_o, v_o) = moments(predicates), moments(objects)
        return torch.cat([m_o + m_r, v_o, v_r], -1)
