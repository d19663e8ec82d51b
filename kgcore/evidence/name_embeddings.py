"""The score that the model would give if it knew the entities by their names alone."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch

from kgcore.arrays import Floats, Ints, Triples
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Tiled, raw_bounds
from kgcore.evidence.words import Tokens, parts_of
from kgcore.models.trained import TrainedModel
from kgcore.registries import EVIDENCE

PENALTY = 0.3  # of the squared coefficients
FOLDS = 3
STEPS = 15  # of the conjugate gradients
COLUMNS = 16  # of the embeddings, in one regression


@EVIDENCE.register("name_embeddings")
@dataclass(frozen=True)
class NameEmbeddings(Feature):
    """named_subject, named_object, named_both: the raw score f with estimated embeddings of s, of o, of both.

    The estimate of an entity is a ridge regression of the embeddings on the parts of the names (parts_of):

        e^ = m + x' B,   B = argmin |E - m - X B|^2 + PENALTY |B|^2

    x has 1 / sqrt(number of parts) for each part, m is the mean embedding. The entities are divided into FOLDS at
    random, and the estimates of a fold are made from the other folds: an entity's own embedding has no effect on its
    estimate. An entity that training lacks gets the mean of the estimates of all folds. NaN: the name has no part that
    another entity has, or the embedding itself is not known.

    Cost: FOLDS x STEPS products of a sparse matrix with the table of embeddings; three scores a triple. Misleading as
    the score is: where the other entity's embedding was trained on the triple itself.
    """

    scorer: TrainedModel
    parts: Tokens
    coefficients: tuple[Floats, ...]
    mean: Floats
    entities: int

    sees_unseen = True
    names = ("named_subject", "named_object", "named_both")

    @classmethod
    def of(cls, source: Source) -> Self:
        parts, trained = source.parts, replace(source.trained, cohort=None)
        table = trained.embeddings.entities.detach().cpu().numpy().astype(np.float64)
        mean, matrix = table.mean(axis=0), matrix_of(parts)
        folds = folds_of(len(table))
        named = np.diff(parts.starts) > 0
        others = [np.flatnonzero(named & (folds != k)) for k in range(FOLDS)]
        coefficients = _fitted([matrix[rows] for rows in others], [table[rows] - mean for rows in others])
        made = cls(trained, parts, coefficients, mean, len(table))
        estimates = np.empty_like(table)
        for fold in range(FOLDS):
            rows = np.flatnonzero(folds == fold)
            estimates[rows] = made._estimates(matrix[rows], fold)
        return made._with(estimates)

    def _estimates(self, matrix: sp.csr_matrix, fold: int) -> Floats:
        """Return the estimates (n, k) of names with the matrix x (n, parts), by the coefficients of a fold."""
        estimates: Floats = self.mean + matrix @ self.coefficients[fold]
        return estimates

    def _with(self, estimates: Floats) -> Self:
        """Return the same with a scorer that has further estimates (n, k) at the end of its table of embeddings."""
        tables = self.scorer.embeddings
        entities = torch.cat([tables.entities, torch.from_numpy(estimates).to(tables.entities)])
        return replace(self, scorer=replace(self.scorer, embeddings=replace(tables, entities=entities)))

    def extended(self, names: Sequence[str]) -> Self:
        parts = self.parts.extended(parts_of(name) for name in names)
        new = matrix_of(parts)[len(self.parts) :]
        each = [self._estimates(new, fold) for fold in range(FOLDS)]
        return replace(self, parts=parts)._with(np.mean(each, axis=0))

    def needs(self, side: int) -> tuple[str, ...]:
        return ("named_object",) if side == 0 else ("named_subject",)

    def values(self, triples: Triples) -> Floats:
        values = np.full((len(triples), 3), np.nan)
        named = np.r_[np.diff(self.parts.starts) > 0, False]
        s, o = (triples[:, column] for column in (0, 2))
        known = [side < self.entities for side in (s, o)]
        has = [named[np.minimum(side, len(self.parts))] for side in (s, o)]
        estimated = ((has[0] & known[1], (0,)), (known[0] & has[1], (2,)), (has[0] & has[1], (0, 2)))
        for column, (rows, sides) in enumerate(estimated):
            shifted = triples[rows].copy()
            shifted[:, list(sides)] += self.entities
            values[rows, column] = self.scorer.raw_score(shifted)
        return values

    def tile(self, tile: Tile) -> Tiled:
        named = np.diff(self.parts.starts) > 0
        nameless = ~named[tile.subjects], ~named[tile.objects]
        columns = []
        for by_subject, by_object in ((True, False), (False, True), (True, True)):
            s, o = tile.subjects + self.entities * by_subject, tile.objects + self.entities * by_object
            bounds = raw_bounds(self.scorer, s, tile.predicate, o)
            for bound in bounds:
                bound[nameless[0] & by_subject] = np.nan
                bound[:, nameless[1] & by_object] = np.nan
            columns.append(PairColumn.between(*bounds))
        return Tiled(columns)


def folds_of(entities: int) -> Ints:
    """Return the fold (n,) of each entity, in [0, FOLDS)."""
    return np.random.default_rng(0).integers(0, FOLDS, entities)


def matrix_of(parts: Tokens) -> sp.csr_matrix:
    """Return x (names, parts)."""
    counts = np.diff(parts.starts)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return sp.csr_matrix((data, parts.numbers, parts.starts), shape=(len(parts), max(parts.size, 1)))


def _fitted(matrices: Sequence[sp.csr_matrix], targets: Sequence[Floats]) -> tuple[Floats, ...]:
    """Return the coefficients (d, k) of each matrix and its targets, on PyTorch's number of threads.

    The columns of the targets are independent of each other. COLUMNS of them at once stay in the processor's cache.
    """
    parts = [(fold, first) for fold in range(len(matrices)) for first in range(0, targets[fold].shape[1], COLUMNS)]
    found = [np.empty((matrix.shape[1], own.shape[1])) for matrix, own in zip(matrices, targets, strict=True)]

    def fit(part: tuple[int, int]) -> None:
        fold, columns = part[0], slice(part[1], part[1] + COLUMNS)
        found[fold][:, columns] = _ridge(matrices[fold], np.ascontiguousarray(targets[fold][:, columns]))

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for _ in pool.map(fit, parts):
            pass  # raises what a part raised
    return tuple(found)


def _ridge(matrix: sp.csr_matrix, targets: Floats) -> Floats:
    """Return the coefficients (d, k) by conjugate gradients, preconditioned by the diagonal."""
    transposed = matrix.T.tocsr()
    diagonal = np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel() + PENALTY
    found = np.zeros((matrix.shape[1], targets.shape[1]))
    rest = transposed @ targets
    scaled = rest / diagonal[:, None]
    step, size = scaled, (rest * scaled).sum(axis=0)
    for _ in range(STEPS):
        product = transposed @ (matrix @ step) + PENALTY * step
        length = size / np.maximum((step * product).sum(axis=0), 1e-300)
        found, rest = found + length * step, rest - length * product
        scaled = rest / diagonal[:, None]
        new = (rest * scaled).sum(axis=0)
        step, size = scaled + (new / np.maximum(size, 1e-300)) * step, new
    return found
