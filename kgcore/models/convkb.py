"""ConvKB: a convolution with filters of shape 1 x 3, over the three columns subject, predicate and object."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import relu

from kgcore.arrays import Floats
from kgcore.loops.compiled import fits_cpu_loops
from kgcore.loops.filters import filter_gradients, filter_scores
from kgcore.models import tiles
from kgcore.models.base import Model
from kgcore.models.comparators import as_blocks
from kgcore.models.options import whole
from kgcore.registries import MODELS

PARTS = 16  # most parts of the blocks whose gradients of the shared numbers are summed apart


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

    compiles = False  # it has loops
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
        if self._has_loops(subjects):
            shape = torch.broadcast_shapes(subjects.shape, predicates.shape, objects.shape)  # type: ignore[no-untyped-call]
            s, p, o = (part.expand(shape).unsqueeze(-2) for part in (subjects, predicates, objects))
            return self._outer((0, 1, 2), s, p, o).squeeze(-1).squeeze(-1)
        maps = feature_maps(self.shared, subjects, predicates, objects)
        return maps.flatten(-2) @ self.shared["weights"].flatten()

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        if self._has_loops(subjects) and subjects.shape[:-2] == candidates.shape[:-2]:
            return self._outer((0, 1, 2), subjects, predicates, candidates)
        return super().score_objects(subjects, predicates, candidates)

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        if self._has_loops(objects) and objects.shape[:-2] == candidates.shape[:-2]:
            return self._outer((2, 1, 0), objects, predicates, candidates)
        return super().score_subjects(predicates, objects, candidates)

    def _has_loops(self, rows: Tensor) -> bool:
        return fits_cpu_loops(rows, *self.shared.values()) and not torch.compiler.is_dynamo_compiling()

    def _outer(self, order: tuple[int, int, int], entities: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        """Return the scores of all pairs of queries (..., q, k) and candidates (..., c, k): (..., q, c).

        order  columns of the filters for the queries' entities, for their predicates, and for the candidates
        """
        filters = self.shared["filters"].T[list(order)]
        shared = filters, self.shared["bias"], self.shared["weights"]
        found: Tensor = _Outer.apply(*shared, entities, predicates, candidates)  # type: ignore[no-untyped-call]
        return found


class _Outer(torch.autograd.Function):
    """The scores of queries and candidates on the CPU, by loops."""

    @staticmethod
    def forward(
        ctx: Any,
        filters: Tensor,
        bias: Tensor,
        weights: Tensor,
        entities: Tensor,
        predicates: Tensor,
        candidates: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(filters, bias, weights, entities, predicates, candidates)
        found = entities.new_empty(*entities.shape[:-1], candidates.shape[-2])
        numbers = [part.detach().contiguous().numpy() for part in (filters, bias, weights)]
        scores: Callable[..., None] = filter_scores
        e, p, c, out = (as_blocks(part) for part in (entities, predicates, candidates, found))
        given = (*numbers, e, p, c, out)
        tiles.share(lambda start, stop: scores(*given, start, stop), e.shape[0] * e.shape[1])
        return found

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        shared, rows = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        own = [part.detach().contiguous().numpy() for part in shared]
        blocks = [as_blocks(part) for part in (*rows, gradient)]
        parts = max(1, min(PARTS, len(blocks[0])))
        bounds = np.linspace(0, len(blocks[0]), parts + 1).astype(int).tolist()
        sums = [torch.zeros(parts, *part.shape) for part in shared]
        found = [torch.empty(part.shape) for part in rows]
        filled = [as_blocks(part) for part in found]

        gradients: Callable[..., None] = filter_gradients

        def of_parts(start: int, stop: int) -> None:
            for part in range(start, stop):
                given = (*own, *blocks, *(each[part].numpy() for each in sums), *filled)
                gradients(*given, bounds[part], bounds[part + 1])

        tiles.share(of_parts, parts)
        return (*(each.sum(0) for each in sums), *found)
