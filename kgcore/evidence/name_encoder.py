"""The score that the model would give if it knew the entities by what a sentence encoder says of their names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Floats, Triples
from kgcore.evidence.base import Feature, Source
from kgcore.evidence.tile import PairColumn, Tile, Tiled, raw_bounds
from kgcore.models.trained import TrainedModel
from kgcore.registries import EVIDENCE

SIDES = {"encoded_subject": (0,), "encoded_object": (2,), "encoded_both": (0, 2)}


@EVIDENCE.register("name_encoder")
@dataclass(frozen=True)
class NameEncoder(Feature):
    """encoded_subject, encoded_object, encoded_both: the raw score f with estimated embeddings of s, of o, of both.

    The estimates are a regression of the embeddings on vectors of the names, which a sentence encoder of the user has
    made: `with_estimates` in kgcore/evidence/encoder.py. They are stored with the model, so that answers need no
    encoder. NaN: the name of an entity has no words, or training lacks the entity. Without an encoder the group has no
    features.

    Cost: three scores a triple. Misleading as the score is: where the other entity's embedding was trained on the
    triple itself. A public encoder may have read the benchmark that the figures are measured on.

    names   (d) names of the features
    scorer  the model with the estimates; None: there is no encoder
    """

    names: tuple[str, ...]
    scorer: TrainedModel | None

    group = "names"

    @classmethod
    def of(cls, source: Source) -> Self:
        return cls(() if source.encoded is None else tuple(SIDES), source.encoded)

    @classmethod
    def own(cls, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in SIDES)

    def values(self, triples: Triples) -> Floats:
        values = np.empty((len(triples), len(self.names)))
        if self.scorer is None:
            return values
        entities = len(self.scorer.embeddings.entities) // 2
        for column, sides in enumerate(SIDES.values()):
            shifted = triples.copy()
            shifted[:, list(sides)] += entities
            values[:, column] = self.scorer.raw_score(shifted)
        return values

    def tile(self, tile: Tile) -> Tiled:
        if self.scorer is None:
            return Tiled(())
        entities = len(self.scorer.embeddings.entities) // 2
        return Tiled(
            [
                PairColumn.between(
                    *raw_bounds(
                        self.scorer,
                        tile.subjects + entities * (0 in sides),
                        tile.predicate,
                        tile.objects + entities * (2 in sides),
                    )
                )
                for sides in SIDES.values()
            ]
        )
