"""The score of the model."""

from dataclasses import dataclass
from typing import Self

from kgcore.arrays import Floats, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.tile import PairColumn, Tile, Tiled
from kgcore.models.trained import TrainedModel
from kgcore.registries import EVIDENCE


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
