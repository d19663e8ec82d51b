"""ConvKB: filters of one row run over subject, predicate and object beside each other."""

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import relu

from kgcore.arrays import Floats
from kgcore.models import MODELS
from kgcore.models.base import Model, whole


@MODELS.register("convkb")
class ConvKB(Model):
    """f(s, p, o) = sum_{f, i} w_fi relu(a_f s_i + b_f r_i + c_f o_i + d_f).

    Nguyen et al., "A Novel Embedding Model for Knowledge Base Completion Based on Convolutional Neural Network",
    NAACL 2018. No dropout, and embeddings that start at random, not from TransE. There a true triple has a low score;
    here w takes the sign.
    Embeddings: (k,) real for entities and predicates; shared: the filters (a_f, b_f, c_f), their biases d_f, and w.
    Range: all reals. A filter at a time, so that scoring holds k numbers a pair, not filters x k.

    filters  number of filters, 32 in the code behind the paper's numbers
    """

    scale = 0.5

    def __init__(self, k: int, filters: float = 32) -> None:
        super().__init__(k)
        self.filters = whole("filters", filters)

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        weights = rng.uniform(-1, 1, (self.filters, self.k)) * math.sqrt(6 / (self.filters * self.k))
        return {"filters": rng.uniform(-1, 1, (self.filters, 3)), "bias": np.zeros(self.filters), "weights": weights}

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        score = torch.zeros((), dtype=objects.dtype, device=objects.device)
        for f in range(self.filters):
            a, b, c = self.shared["filters"][f]
            maps = relu((a * subjects + b * predicates + self.shared["bias"][f]) + c * objects)
            score = score + maps @ self.shared["weights"][f]
        return score
