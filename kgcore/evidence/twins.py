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
    """Unknown triples with a twin in train, and the chance that each of them is true.

    triples  (n, 3) by predicate: of each, at most share x validation facts, with the share of `Twins.shares`
    chances  (n,) the share of the predicate's triples with a twin that are training facts. Where the graph has nearly
             all facts of a predicate, this is too high: the unknown ones may be true in one direction only
    """

    triples: Triples
    chances: Floats

    @classmethod
    def of(cls, graph: KnowledgeGraph) -> Self:
        """Choose evenly spaced triples of each predicate, for a graph whose splits keep twins together."""
        twins, valid = Twins.of(graph), graph.valid.positives
        wanted = np.rint(twins.shares * np.bincount(valid[:, 1], minlength=len(twins.shares))).astype(np.int64)
        known, chosen, chances = graph.index(graph.known.triples, graph.valid.negatives), [valid[:0]], [np.zeros(0)]
        for predicate in np.flatnonzero(wanted).tolist():
            triples = twins.of_predicate(predicate)
            unknown = triples[~known.contains(triples)]
            places = np.linspace(0, len(unknown), min(int(wanted[predicate]), len(unknown)), endpoint=False)
            chosen.append(unknown[places.astype(np.int64)])
            chances.append(np.full(len(places), twins.train.contains(triples).mean()))
        return cls(np.concatenate(chosen), np.concatenate(chances))

    def to_table(self) -> tuple[dict[str, npt.NDArray[Any]], Mapping[str, Any]]:
        """Return the columns s, p, o and chance."""
        return dict(zip("spo", self.triples.T, strict=True)) | {"chance": self.chances}, {}

    @classmethod
    def from_table(cls, columns: dict[str, npt.NDArray[Any]], metadata: Mapping[str, Any]) -> Self:
        """Read the output of `to_table`."""
        return cls(np.stack([columns[name] for name in "spo"], axis=1), columns["chance"])
