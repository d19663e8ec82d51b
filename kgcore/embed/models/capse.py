"""CapsE: ConvKB's feature maps form capsules. Routing combines them into one capsule, and its length is the score."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from kgcore.arrays import Floats
from kgcore.embed.models.base import Model, whole
from kgcore.embed.models.convkb import feature_maps
from kgcore.registries import MODELS

TINY = 1e-12  # gives a capsule of zeros a finite logarithm and gradient


def _squashed(vectors: Tensor) -> Tensor:
    """Return vectors of the same direction and of length |v|^2 / (1 + |v|^2): (..., d) -> (..., d)."""
    square = vectors.square().sum(-1, keepdim=True)
    return vectors * (square + TINY).sqrt() / (1 + square)


@MODELS.register("capse")
class CapsE(Model):
    """f(s, p, o) = |squash(v)| = |v|^2 / (1 + |v|^2), or the log-odds of this length, log |v|^2.

    v = sum_i c_i W_i u_i, u_fi = relu(a_f s_i + b_f r_i + c_f o_i + d_f)

    Nguyen et al., "A Capsule Network-based Embedding Model for Knowledge Graph Completion and Search Personalization",
    NAACL 2019. Capsule u_i of the first layer holds the i-th number of every feature map and votes W_i u_i. c is the
    softmax over i of the agreements b_i. These start at 0, and grow by W_i u_i . squash(v) after every routing except
    the last. The scoring function has no dropout, and initial embeddings are random, not those of TransE.
    Embeddings: (k,) real for entities and predicates; shared: the filters (a_f, b_f, c_f), their biases d_f, and the
    maps W_i. Range: [0, 1) for the length, all reals for its log-odds.
    The log-odds give the same ranks as the lengths. NLL and the self-adversarial loss expect log-odds: with these
    losses and many corruptions per positive, the lengths themselves all shrink to 0.

    filters   number of filters, which is the size of a capsule of the first layer; 32 is our choice
    capsule   size of the second layer's capsule, 10 as in the authors' code
    routings  iterations of the routing. With 1, as in the authors' code, every c_i is 1 / k
    log_odds  whether the score is the log-odds of the length; false = the length itself, as published
    """

    scale = 0.5

    def __init__(
        self, k: int, filters: float = 32, capsule: float = 10, routings: float = 1, log_odds: bool = True
    ) -> None:
        super().__init__(k)
        self.log_odds = log_odds
        self.filters, self.capsule = whole("filters", filters), whole("capsule", capsule)
        self.routings = whole("routings", routings)

    @property
    def pair_width(self) -> int:
        return self.k * (self.filters if self.routings == 1 else max(self.filters, self.capsule))

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        filters = rng.uniform(-1, 1, (self.filters, 3))
        votes = rng.uniform(-1, 1, (self.filters, self.k, self.capsule)) * math.sqrt(6 * self.k / self.filters)
        return {"filters": filters, "bias": np.zeros(self.filters), "votes": votes}

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        first, weights = feature_maps(self.shared, subjects, predicates, objects), self.shared["votes"]
        # The mean of the votes, without storing them. Columns beyond a multiple of 16 would be added in another order.
        columns = pad(weights.flatten(0, 1), (0, -self.capsule % 16))
        capsule = (first.flatten(-2) @ columns)[..., : self.capsule] / self.k
        if self.routings > 1:
            votes = torch.einsum("...fi,fid->...id", first, weights)
            agreement = torch.zeros_like(votes[..., :1])
            for _ in range(self.routings - 1):
                agreement = agreement + votes @ _squashed(capsule).unsqueeze(-1)
                capsule = (agreement.softmax(-2) * votes).sum(-2)
        square = capsule.square().sum(-1)
        return (square + TINY).log() if self.log_odds else square / (1 + square)
