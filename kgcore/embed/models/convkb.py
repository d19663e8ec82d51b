"""ConvKB: a convolution with filters of shape 1 x 3, over the three columns subject, predicate and object."""

import math
from collections.abc import Mapping

import numpy as np
from torch import Tensor
from torch.nn.functional import relu

from kgcore.arrays import Floats
from kgcore.embed.models.base import Model, whole
from kgcore.registries import MODELS


def feature_maps(shared: Mapping[str, Tensor], subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
    """Return the feature maps relu(a_f s_i + b_f r_i + c_f o_i + d_f).

    (..., k), (..., k), (..., k) -> (..., filters, k)

    shared  "filters" (filters, 3) and their "bias" (filters,)
    """
    a, b, c = shared["filters"].unsqueeze(-1).unbind(1)  # (filters, 1) each
    s, r, o = (rows.unsqueeze(-2) for rows in (subjects, predicates, objects))
    return relu((a * s + b * r + shared["bias"].unsqueeze(-1)) + c * o)


@MODELS.register("convkb")
class ConvKB(Model):
    """f(s, p, o) = sum_{f, i} w_fi relu(a_f s_i + b_f r_i + c_f o_i + d_f).

    Nguyen et al., "A Novel Embedding Model for Knowledge Base Completion Based on Convolutional Neural Network",
    NAACL 2018. The scoring function has no dropout, and initial embeddings are random, not those of TransE. In the
    publication a true triple has a low score; here w has the opposite sign.
    Embeddings: (k,) real for entities and predicates; shared: the filters (a_f, b_f, c_f), their biases d_f, and w.
    Range: all reals.

    filters  number of filters; 32 is the default of AmpliGraph, which computed the calibration paper's numbers. The
             authors' code has 500, its later version 64 or 128
    """

    scale = 0.5

    def __init__(self, k: int, filters: float = 32) -> None:
        super().__init__(k)
        self.filters = whole("filters", filters)

    @property
    def pair_width(self) -> int:
        return self.filters * self.k

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        weights = rng.uniform(-1, 1, (self.filters, self.k)) * math.sqrt(6 / (self.filters * self.k))
        return {"filters": rng.uniform(-1, 1, (self.filters, 3)), "bias": np.zeros(self.filters), "weights": weights}

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        maps = feature_maps(self.shared, subjects, predicates, objects)
        return maps.flatten(-2) @ self.shared["weights"].flatten()
