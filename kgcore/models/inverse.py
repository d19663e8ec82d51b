"""The score of a model with inverse predicates: the mean over both directions of a triple."""

from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
from torch import Tensor

from kgcore.arrays import Floats
from kgcore.models.base import Embeddings, Model


class BothWays(Model):
    """A model with the score 1/2 (f(s, p, o) + f(o, p', s)), where p', the inverse of p, has its own embedding.

    Lacroix et al., "Canonical Tensor Decomposition for Knowledge Base Completion", ICML 2018, section 4.1, learn p to
    predict objects and p' to predict subjects, so that a triple has two scores. This model takes their mean, as SimplE
    does (Kazemi & Poole, NeurIPS 2018).
    Embeddings: entities as in f; the embedding of a predicate is that of p in f, then that of p'. Range: as in f.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model.k)
        self.model, self.shared = model, model.shared

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
    """Return the tables for `BothWays`: each row of predicates (R, 2 w) is a predicate, then its inverse.

    tables  predicates are (2 R, w): first the R predicates, then their R inverses
    """
    return Embeddings(tables.entities, torch.cat(tables.predicates.chunk(2), -1), tables.shared)
