"""What names say: roles of entities with like names, likeness of subject and object, and scores by names alone."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch

from kgcore.arrays import Floats, Ints, Triples, sorted_distinct
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Tiled, raw_bounds
from kgcore.evidence.lookup import Counts, KeyTable, Tokens, mean_and_highest, meeting, parts_of, trigrams_of, words_of
from kgcore.registries import EVIDENCE

SMOOTHING = 1.0  # entities with the average share of the role that each part of a name has beside its own
PENALTY = 0.3  # of the squared coefficients
NAME_FOLDS = 3
STEPS = 15  # of the conjugate gradients
COLUMNS = 16  # of the embeddings, in one regression


@EVIDENCE.register("name_roles")
@dataclass(frozen=True)
class NameRoles(Feature):
    """role_subject_mean, role_subject_highest: log lift of the parts of the subject's name for the role (p, subject).

    A role is a predicate and a side. Of the E entities, n(role) have the role in a training fact: the share q is
    (n(role) + 1/2) / (E + 1). n(v) entities have the part v in their name (kgcore/evidence/lookup.py: parts_of);
    n(v, role) of them have the role.

        log lift of v = log((n(v, role) + a q) / (n(v) + a)) - log q, a = SMOOTHING

    The entity itself is left out of all counts, with all of its facts. So a training fact is never evidence
    for itself, and an entity that training lacks is treated as any other. `mean` and `highest` are over the parts that
    at least two entities have. role_object_*: the same for the object and the role (p, object).

    Cost: one look-up for each part of both names. Misleading where the name of an entity says how it came into the
    graph; the labels of a benchmark may depend on that.
    """

    parts: Tokens
    entities: int
    members: KeyTable
    roles: Ints
    counts: Counts
    totals: Ints

    sees_unseen = True
    names = tuple(f"role_{side}_{what}" for side in ("subject", "object") for what in ("mean", "highest"))

    @classmethod
    def of(cls, source: Source) -> Self:
        graph = source.graph
        parts = source.parts
        facts, entities, slots = graph.train.positives, len(graph.entities), 2 * len(graph.predicates)
        members = sorted_distinct(
            np.concatenate([facts[:, 0] * slots + 2 * facts[:, 1], facts[:, 2] * slots + 2 * facts[:, 1] + 1])
        )
        row, part = parts.expand(members // slots)
        return cls(
            parts,
            entities,
            KeyTable.of(members),
            np.bincount(members % slots, minlength=slots),
            Counts.of(part * slots + members[row] % slots),
            np.bincount(parts.numbers, minlength=max(parts.size, 1)),
        )

    def extended(self, names: Sequence[str]) -> Self:
        return replace(self, parts=self.parts.extended(parts_of(name) for name in names))

    def needs(self, side: int) -> tuple[str, ...]:
        return ()

    def values(self, triples: Triples) -> Floats:
        sides = [self._lift(triples[:, 2 * side], 2 * triples[:, 1] + side) for side in (0, 1)]
        return np.concatenate(sides, axis=1)

    def tile(self, tile: Tile) -> Tiled:
        return Tiled(tile.sided(self, "role_subject_"))

    def _lift(self, entities: Ints, roles: Ints) -> Floats:
        row, part = self.parts.expand(entities)
        slots = len(self.roles)
        has, known, role = np.zeros(len(entities), dtype=np.int64), entities < self.entities, roles[row]
        has[self.members.find(entities * slots + roles)[0]] = 1
        share = ((self.roles[roles] - has + 0.5) / (self.entities - known + 1))[row]
        with_role = self.counts(part * slots + role) - has[row]
        total = self.totals[part] - known[row]
        lift = np.log((with_role + SMOOTHING * share) / (total + SMOOTHING) / share)
        return mean_and_highest(row, lift, len(entities))


@dataclass(frozen=True)
class Likeness:
    """The weighted share of common tokens of two names.

    weights  (tokens) idf: log((N + 1) / (n + 1)) of a token that n of the N entities have
    sums     (entities) sum of the weights of each name's tokens
    """

    tokens: Tokens
    weights: Floats
    sums: Floats

    @classmethod
    def of(cls, names: Iterable[Sequence[str]]) -> Self:
        tokens = Tokens.of(names, fewest=1)
        counts = np.bincount(tokens.numbers, minlength=max(tokens.size, 1))
        weights = np.log((len(tokens) + 1) / (counts + 1))
        return cls(tokens, weights, _sums(tokens, weights))

    def extended(self, names: Iterable[Sequence[str]]) -> "Likeness":
        tokens = self.tokens.extended(names)
        return replace(self, tokens=tokens, sums=_sums(tokens, self.weights))

    def common(self, triples: Triples) -> Floats:
        """Return the sum of weights (n,) of the tokens that both names have."""
        size, sides = self.tokens.size + 1, []
        for column in (0, 2):
            row, token = self.tokens.expand(triples[:, column])
            sides.append(row * size + token)
        both = np.intersect1d(sides[0], sides[1], assume_unique=True)
        return np.bincount(both // size, self.weights[both % size], len(triples)).astype(np.float64)

    def of_side(self, entities: Ints) -> Floats:
        """Return the sums of weights (n,); 0 for an entity without a name."""
        sums: Floats = np.r_[self.sums, 0.0][np.minimum(entities, len(self.sums))]
        return sums


def _sums(tokens: Tokens, weights: Floats) -> Floats:
    rows = np.repeat(np.arange(len(tokens)), np.diff(tokens.starts))
    return np.bincount(rows, weights[tokens.numbers], len(tokens)).astype(np.float64)


@EVIDENCE.register("name_likeness")
@dataclass(frozen=True)
class NameLikeness(Feature):
    """How much of the names is common. w(A): sum of the idf weights of the tokens A; A of the subject, B of the object.

    likeness_words     w(A & B) / w(A | B), of words
    likeness_trigrams  w(A & B) / w(A | B), of trigrams of letters
    likeness_subject   w(A & B) / w(A), of words: 1 = the object's name has all words of the subject's name
    likeness_object    w(A & B) / w(B), of words

    NaN: a name has no word. No training fact is used.

    Cost: two sorts of the tokens of a block. Misleading where false triples are made from names that are alike.
    """

    words: Likeness
    trigrams: Likeness

    sees_unseen = True
    names = ("likeness_words", "likeness_trigrams", "likeness_subject", "likeness_object")

    @classmethod
    def of(cls, source: Source) -> Self:
        names = source.graph.entities
        return cls(Likeness.of(words_of(name) for name in names), Likeness.of(trigrams_of(name) for name in names))

    def extended(self, names: Sequence[str]) -> Self:
        words = self.words.extended(words_of(name) for name in names)
        return replace(self, words=words, trigrams=self.trigrams.extended(trigrams_of(name) for name in names))

    def needs(self, side: int) -> tuple[str, ...]:
        return ()

    def values(self, triples: Triples) -> Floats:
        columns = []
        for kind in (self.words, self.trigrams):
            common, s, o = kind.common(triples), kind.of_side(triples[:, 0]), kind.of_side(triples[:, 2])
            columns.append(_share(common, s + o - common, s, o))
            if kind is self.words:
                sides = [_share(common, side, s, o) for side in (s, o)]
        return np.stack([*columns, *sides], axis=1)

    def tile(self, tile: Tile) -> Tiled:
        columns, apart = [], np.zeros(tile.shape, dtype=bool)
        unlike = np.array([[np.nan, np.nan], [np.nan, 0.0]])  # a name without weight; two names
        for kind in (self.words, self.trigrams):
            known = ((kind.of_side(side) > 0).astype(np.int64) for side in (tile.subjects, tile.objects))
            columns.append(PairColumn.of(unlike, *known))
            size = kind.tokens.size
            apart |= meeting(kind.tokens.matrix(tile.subjects, size), kind.tokens.matrix(tile.objects, size))
        return Tiled((*columns, columns[0], columns[0]), apart)


def _share(part: Floats, whole: Floats, s: Floats, o: Floats) -> Floats:
    """Return part / whole; NaN if a name has no weight."""
    known = (s > 0) & (o > 0)
    return np.where(known, part / np.where(known, whole, 1.0), np.nan)


@EVIDENCE.register("name_embeddings")
@dataclass(frozen=True)
class NameEmbeddings(Feature):
    """named_subject, named_object, named_both: the raw score f with estimated embeddings of s, of o, of both.

    The estimate of an entity is a ridge regression of the embeddings on the parts of the names (parts_of):

        e^ = m + x' B,   B = argmin |E - m - X B|^2 + PENALTY |B|^2

    x has 1 / sqrt(number of parts) for each part, m is the mean embedding. The entities are divided into NAME_FOLDS at
    random, and the estimates of a fold are made from the other folds: an entity's own embedding has no effect on its
    estimate. An entity that training lacks gets the mean of the estimates of all folds. NaN: the name has no part that
    another entity has, or the embedding itself is not known.

    Cost: NAME_FOLDS x STEPS products of a sparse matrix with the table of embeddings; three scores a triple. Misleading
    as the score is: where the other entity's embedding was trained on the triple itself.
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
        table = trained.embeddings.entities.detach().cpu().numpy()
        mean, matrix = table.mean(axis=0, dtype=np.float64), matrix_of(parts)
        folds = name_folds(len(table))
        named = np.diff(parts.starts) > 0
        others = [np.flatnonzero(named & (folds != k)) for k in range(NAME_FOLDS)]
        coefficients = _fitted([matrix[rows] for rows in others], others, table, mean)
        made = cls(trained, parts, coefficients, mean, len(table))
        estimates = np.empty_like(table)
        for fold in range(NAME_FOLDS):
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
        each = [self._estimates(new, fold) for fold in range(NAME_FOLDS)]
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


def name_folds(entities: int) -> Ints:
    """Return the fold (n,) of each entity, in [0, NAME_FOLDS)."""
    return np.random.default_rng(0).integers(0, NAME_FOLDS, entities)


def matrix_of(parts: Tokens) -> sp.csr_matrix:
    """Return x (names, parts)."""
    counts = np.diff(parts.starts)
    data = np.repeat(1 / np.sqrt(np.maximum(counts, 1)), counts)
    return sp.csr_matrix((data, parts.numbers, parts.starts), shape=(len(parts), max(parts.size, 1)))


def _fitted(matrices: Sequence[sp.csr_matrix], rows: Sequence[Ints], table: Floats, mean: Floats) -> tuple[Floats, ...]:
    """Return the coefficients (d, k) of each matrix and of its rows of the table (n, k).

    The columns of the table are independent of each other: PyTorch's number of threads share them. COLUMNS of them at
    once stay in the processor's cache.
    """
    parts = [(fold, first) for fold in range(len(matrices)) for first in range(0, table.shape[1], COLUMNS)]
    found = [np.empty((matrix.shape[1], table.shape[1])) for matrix in matrices]

    def fit(part: tuple[int, int]) -> None:
        fold, columns = part[0], slice(part[1], part[1] + COLUMNS)
        found[fold][:, columns] = _ridge(matrices[fold], table[rows[fold], columns] - mean[columns])

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
