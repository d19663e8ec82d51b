"""Inverse predicates: a triple is read both ways."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats
from kgcore.models.base import Embeddings, Model


class BothWays(Model):
    """1/2 (f(s, p, o) + f(o, p', s)), p' the inverse of p, whose embedding is learnt by itself.

    Lacroix et al., "Canonical Tensor Decomposition for Knowledge Base Completion", ICML 2018, section 4.1, learn p for
    the objects and p' for the subjects, which leaves a triple with two scores; their mean is one score a triple, as in
    SimplE (Kazemi & Poole, NeurIPS 2018).
    Embeddings: entities as f's; predicates f's of p, then f's of p'. Range: f's.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model.k)
        self.model, self.shared, self.by_queries = model, model.shared, model.by_queries

    @property
    def entity_width(self) -> int:
        return self.model.entity_width

    @property
    def predicate_width(self) -> int:
        return 2 * self.model.predicate_width

    @property
    def pair_width(self) -> int:
        return self.model.pair_width

    def initial_shared(self, rng: np.random.Generator) -> Mapping[str, Floats]:
        return self.model.initial_shared(rng)

    def bound(self, shared: Mapping[str, Tensor]) -> Self:
        model = super().bound(shared)
        model.model = self.model.bound(shared)
        return model

    def score(self, subjects: Tensor, predicates: Tensor, objects: Tensor) -> Tensor:
        p, inverse = predicates.chunk(2, -1)
        return (self.model.score(subjects, p, objects) + self.model.score(objects, inverse, subjects)) / 2

    def score_objects(self, subjects: Tensor, predicates: Tensor, candidates: Tensor) -> Tensor:
        (p, inverse), f = predicates.chunk(2, -1), self.model
        return (f.score_objects(subjects, p, candidates) + f.score_subjects(inverse, subjects, candidates)) / 2

    def score_subjects(self, predicates: Tensor, objects: Tensor, candidates: Tensor) -> Tensor:
        (p, inverse), f = predicates.chunk(2, -1), self.model
        return (f.score_subjects(p, objects, candidates) + f.score_objects(objects, inverse, candidates)) / 2


def folded(tables: Embeddings) -> Embeddings:
    """The tables of R predicates and, below them, their R inverses as those that `BothWays` takes: the two side by
    side."""
    return Embeddings(tables.entities, torch.cat(tables.predicates.chunk(2), -1), tables.shared)
