"""The score of the model, where it lies among the scores of a cohort, and the same of further models."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import numpy.typing as npt
import torch

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.embed.models.base import LARGEST_BLOCK, block_rows, fixed_blocks
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Feature, PairColumn, Source, Tile, Tiled
from kgcore.loops.evidence import fill_shares
from kgcore.registries import EVIDENCE

MEMBERS = 64  # of a cohort; a multiple of kgcore.embed.models.base.MULTIPLE
QUERIES_AT_ONCE = 256
RANKS = ("object_rank", "subject_rank")  # of `cohorts`


@EVIDENCE.register("score")
@dataclass(frozen=True)
class Score(Feature):
    """score: f(t), or the cohort-normalised f'(t) if the model has a cohort.

    Cost: one score a triple. Misleading where the model has trained on the triple itself: a training fact has a higher
    score than an equally plausible triple that train lacks, and leaving it out would need another training.
    """

    trained: TrainedModel

    names = ("score",)

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls(source.trained)

    def values(self, triples: Triples) -> Floats:
        return self.trained.score(triples)[:, None]

    def tile(self, tile: Tile) -> Tiled:
        low, high = tile.raw(self.trained)
        if self.trained.cohort is not None:
            levels = self.trained.cohort.weight * self.trained.levels(tile.triples(tile.subjects, tile.subjects))
            low, high = low - levels[:, None], high - levels[:, None]
        return Tiled((PairColumn.between(low, high),))


@EVIDENCE.register("cohorts")
@dataclass(frozen=True)
class Cohorts(Feature):
    """The score f(s, p, o) of the model among the scores of other objects for (s, p), and of other subjects for (p, o).

    The cohort of a predicate and a side is MEMBERS entities that it has there in training, evenly spaced among all of
    them (all entities, if it has none); in a short cohort, each member occurs several times. Over the cohort's objects
    c other than o:

        object_level   log-mean-exp of f(s, p, c)
        object_margin  f(s, p, o) - mean of f(s, p, c)
        object_z       object_margin / standard deviation of f(s, p, c)
        object_rank    share of the c with f(s, p, c) > f(s, p, o), equal scores counted half
        subject_...    the same over the cohort's subjects for (p, o)

    A high score means little for a subject that scores high with every object: Rosenberg et al., ICSLP 1992; see
    kgcore/embed/models/cohort.py. Cost: MEMBERS scores for each distinct (s, p) and (p, o) of a block of triples. NaN:
    the cohort has no member but the entity itself.

    Misleading where cohorts hold many facts that train lacks, and for training facts: their own scores were trained.

    trained  the model
    members  (2, R, MEMBERS) cohorts of subjects, and of objects
    """

    trained: TrainedModel
    members: Ints

    names = (
        *("object_level", "object_margin", "object_z", "object_rank"),
        *("subject_level", "subject_margin", "subject_z", "subject_rank"),
    )

    @classmethod
    def of(cls, source: Source) -> Self:
        facts = source.triples
        return cls(source.trained, np.stack([_cohorts(facts[:, [1, column]], *source.sizes) for column in (0, 2)]))

    @torch.inference_mode()
    def values(self, triples: Triples) -> Floats:
        scores = self.trained.raw_score(triples)
        return np.concatenate([self._side(triples, scores, as_objects=side) for side in (True, False)], axis=1)

    @torch.inference_mode()
    def tile(self, tile: Tile) -> Tiled:
        low, high = tile.raw(self.trained)
        of_subjects = self._tiled(tile.predicate, tile.objects, low.T, high.T, as_objects=False)
        columns = [PairColumn(column.low.T, column.high.T) for column in of_subjects]
        subjects, objects = (self.members[side, tile.predicate] for side in (0, 1))
        apart = np.isin(tile.subjects, subjects)[:, None] | np.isin(tile.objects, objects)
        return Tiled((*self._tiled(tile.predicate, tile.subjects, low, high, as_objects=True), *columns), apart)

    def _tiled(self, predicate: int, given: Ints, low: Floats, high: Floats, *, as_objects: bool) -> list[PairColumn]:
        """Return the columns of one side, from bounds (n, m) of the scores of given entities (n,) with others (m,)."""
        scores = self._scores(np.full(len(given), predicate), given, as_objects=as_objects).astype(np.float64)
        _, level, mean, spread = _moments(scores, np.ones(scores.shape, dtype=bool))
        margins = low - mean[:, None], high - mean[:, None]
        z = (margin / np.maximum(spread, 1e-6)[:, None] for margin in margins)
        ranks = np.empty(low.shape, dtype=np.float32), np.empty(low.shape, dtype=np.float32)
        fill_shares(np.sort(scores, axis=1), np.ascontiguousarray(low), np.ascontiguousarray(high), *ranks)
        return [
            PairColumn.of(level[:, None]),
            *(PairColumn.between(*bounds) for bounds in (margins, z)),
            PairColumn(*ranks),
        ]

    def _side(self, triples: Triples, own: Floats, *, as_objects: bool) -> Floats:
        """Return the features (n, 4) of one side, from the scores f (n,) of the triples."""
        given, wanted = (triples[:, 0], triples[:, 2]) if as_objects else (triples[:, 2], triples[:, 0])
        entities = len(self.trained.embeddings.entities)
        pairs, place = np.unique(triples[:, 1] * entities + given, return_inverse=True)
        found = self._scores(*np.divmod(pairs, entities), as_objects=as_objects)
        result = np.empty((len(triples), 4))
        for start in range(0, len(triples), 2**14):
            rows = slice(start, start + 2**14)
            members = self.members[int(as_objects)][triples[rows, 1]]
            result[rows] = _among(found[place[rows]].astype(np.float64), own[rows], members != wanted[rows, None])
        return result

    def _scores(self, predicates: Ints, entities: Ints, *, as_objects: bool) -> npt.NDArray[np.float32]:
        """Score queries (q,), ascending by predicate, with their cohorts: (q, MEMBERS)."""
        model, tables = self.trained.model, self.trained.embeddings
        device = tables.entities.device
        rows = block_rows(QUERIES_AT_ONCE, LARGEST_BLOCK // (MEMBERS * model.pair_width))
        found = np.empty((len(predicates), MEMBERS), dtype=np.float32)
        first = np.searchsorted(predicates, np.arange(len(tables.predicates) + 1))
        for predicate in np.unique(predicates).tolist():
            cohort = tables.entities[torch.from_numpy(self.members[int(as_objects), predicate]).to(device)]
            p, start = tables.predicates[predicate].expand(rows, -1), int(first[predicate])
            ids = torch.from_numpy(entities[start : first[predicate + 1]]).to(device)
            for block, count in fixed_blocks(ids, rows):
                e = tables.entities[block]
                scores = model.score_objects(e, p, cohort) if as_objects else model.score_subjects(p, e, cohort)
                found[start : start + count] = scores[:count].float().cpu().numpy()
                start += count
        return found


def _cohorts(seen: Ints, entities: int, predicates: int) -> Ints:
    """Return the cohort (R, MEMBERS) of each predicate, from its (predicate, entity) in training (m, 2)."""
    keys = np.unique(seen[:, 0] * entities + seen[:, 1])
    places = np.searchsorted(keys, np.arange(predicates + 1) * entities)
    pools = (keys[a:b] % entities if b > a else np.arange(entities) for a, b in pairwise(places.tolist()))
    return np.stack([pool[np.arange(MEMBERS) * max(len(pool), MEMBERS) // MEMBERS % len(pool)] for pool in pools])


def _among(scores: Floats, own: Floats, others: Bools) -> Floats:
    """Compare the score of each triple with those of its cohort: (n, MEMBERS), (n,), (n, MEMBERS) -> (n, 4)."""
    count, level, mean, spread = _moments(scores, others)
    higher = np.where(others, (scores > own[:, None]) + (scores == own[:, None]) / 2, 0).sum(1) / count
    margin = own - mean
    return np.stack([level, margin, margin / np.maximum(spread, 1e-6), higher], axis=1)


def _moments(scores: Floats, others: Bools) -> tuple[Floats, Floats, Floats, Floats]:
    """Return number, log-mean-exp, mean and standard deviation (n,) of those scores (n, MEMBERS) that count."""
    count = others.sum(1).astype(np.float64)
    count[count == 0] = np.nan
    highest = np.where(others, scores, -np.inf).max(1)
    highest[~np.isfinite(highest)] = 0
    level = highest + np.log(np.where(others, np.exp(scores - highest[:, None]), 0).sum(1) / count)
    mean = np.where(others, scores, 0).sum(1) / count
    spread = np.sqrt(np.where(others, (scores - mean[:, None]) ** 2, 0).sum(1) / count)
    return count, level, mean, spread


@EVIDENCE.register("other_scores")
@dataclass(frozen=True)
class OtherScores(Feature):
    """For each further model of the source, number n = 2, 3, ...: what `score` and `cohorts` say of the first model.

        model_n_score         its score, as `score`
        model_n_object_rank   relative rank of its raw score among those of a cohort of objects, in [0, 1]:
        model_n_subject_rank  the same among subjects

    The other features of `cohorts` add hardly anything to these. Models with other scoring functions make other
    mistakes. Without further models the group has no features. Cost, for each further model: that of both groups.
    Misleading where these are.

    names  (d) names of the features
    parts  of each model, its score and its cohorts
    """

    names: tuple[str, ...]
    parts: tuple[tuple[Score, Cohorts], ...]

    @classmethod
    def of(cls, source: Source) -> Self:
        models = [source.of_other(number) for number in range(len(source.others))]
        parts = tuple((Score.of(model), Cohorts.of(model)) for model in models)
        own = (*Score.names, *RANKS)
        names = (f"model_{number}_{name}" for number, _ in enumerate(parts, start=2) for name in own)
        return cls(tuple(names), parts)

    @classmethod
    def own(cls, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if re.match(r"model_\d+_", name))

    def values(self, triples: Triples) -> Floats:
        columns = [Cohorts.names.index(name) for name in RANKS]
        found = [(score.values(triples), cohorts.values(triples)[:, columns]) for score, cohorts in self.parts]
        return np.concatenate([np.empty((len(triples), 0)), *(part for pair in found for part in pair)], axis=1)

    def tile(self, tile: Tile) -> Tiled:
        places, columns = [Cohorts.names.index(name) for name in RANKS], list[PairColumn]()
        apart = np.zeros(tile.shape, dtype=bool)
        for score, cohorts in self.parts:
            tiled = cohorts.tile(tile)
            apart |= False if tiled.apart is None else tiled.apart
            columns += [*score.tile(tile).columns, *(tiled.columns[place] for place in places)]
        return Tiled(columns, apart)
