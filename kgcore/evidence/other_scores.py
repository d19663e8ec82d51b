"""The scores of further models, and where they lie among the scores of a cohort."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.cohorts import Cohorts
from kgcore.evidence.score import Score
from kgcore.evidence.tile import PairColumn, Tile, Tiled
from kgcore.registries import EVIDENCE

RANKS = ("object_rank", "subject_rank")  # of `cohorts`


@EVIDENCE.register("other_scores")
@dataclass(frozen=True)
class OtherScores(Feature):
    """For each further model of the source, number n = 2, 3, ...: what `score` and `cohorts` say of the first model.

        model_n_score         its score: kgcore/evidence/score.py
        model_n_object_rank   relative rank of its raw score among those of a cohort of objects, in [0, 1]:
        model_n_subject_rank  the same among subjects. kgcore/evidence/cohorts.py

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
