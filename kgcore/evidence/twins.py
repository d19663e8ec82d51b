"""Unknown triples with a twin in train, beside which combiners are fitted: see kgcore/data/stored_twins.py."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from kgcore.arrays import Floats, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.data.stored_twins import Twins
from kgcore.registries import STORED


@STORED.register("twins")
@dataclass(frozen=True)
class UnknownTwins:
    """Unknown triples with a twin in train, each of which is true by some chance.

    triples  (n, 3) by predicate: of each, at most share x validation facts, with the share of `Twins.shares`
    chances  (n,) the chance that a triple is true: that of its predicate, see `Twins.chance`
    """

    triples: Triples
    chances: Floats

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> "UnknownTwins | None":
        """Choose triples at equal distances among those of a predicate. None if there are none."""
        twins, valid = Twins.of(graph), graph.valid.positives
        if twins is None:
            return None
        wanted = np.rint(twins.shares * np.bincount(valid[:, 1], minlength=len(twins.shares))).astype(np.int64)
        known, chosen, chances = graph.index(graph.known.triples, graph.valid.negatives), [valid[:0]], [np.zeros(0)]
        for predicate in np.flatnonzero(wanted).tolist():
            triples = twins.of_predicate(predicate)
            triples = triples[~known.contains(triples)]
            places = np.linspace(0, len(triples), min(int(wanted[predicate]), len(triples)), endpoint=False)
            chosen.append(triples[places.astype(np.int64)])
            chances.append(np.full(len(places), twins.chance(predicate)))
        triples = np.concatenate(chosen)
        return cls(triples, np.concatenate(chances)) if len(triples) else None

    def to_table(self) -> tuple[dict[str, npt.NDArray[Any]], Mapping[str, Any]]:
        """Return the columns s, p, o and chance."""
        return dict(zip("spo", self.triples.T, strict=True)) | {"chance": self.chances}, {}

    @classmethod
    def from_table(cls, columns: dict[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """Read the output of `to_table`."""
        return cls(np.stack([columns[name] for name in "spo"], axis=1), columns["chance"])
