"""A mixture of strategies with given shares."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.corruptions.base import Strategy
from kgcore.graph import KnowledgeGraph
from kgcore.registries import STRATEGIES

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel


class Mixture(Strategy):
    """A combination of strategies. Each strategy draws its share of the entities for every triple.

    `draw` rounds share x `count` up or down at random, so that its expected value is exact. The numbers are the same
    for all triples of a draw. `draw_one` chooses a strategy at random for each triple.
    """

    def __init__(self, graph: KnowledgeGraph, shares: Mapping[str, float]) -> None:
        """Combine strategies. `shares` maps registered names to shares above 0, which are divided by their sum."""
        super().__init__(graph)
        self._parts = [STRATEGIES.get(name)(graph) for name in shares]
        self._ends = np.cumsum(list(shares.values())) / sum(shares.values())
        self.by_predicate = any(part.by_predicate for part in self._parts)
        self.by_model = any(part.by_model for part in self._parts)
        self.by_batch = any(part.by_batch for part in self._parts)
        self._counted: dict[int, list[int]] = {}  # column -> number of entities that each strategy drew last
        named = zip(shares, self._parts, strict=True)
        self.tables = {f"{name}.{key}": table for name, part in named for key, table in part.tables.items()}

    def _counts(self, count: int, rng: np.random.Generator) -> list[int]:
        """Divide `count` among the strategies: return the number of entities that each one draws."""
        if len(self._parts) == 1:
            return [count]
        ends = np.floor(self._ends * count + rng.random() + 1e-9).astype(int).clip(max=count)
        ends[-1] = count
        counts: list[int] = np.diff(ends, prepend=0).tolist()
        return counts

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        counts = self._counted[column] = self._counts(count, rng)
        drawn = [part.draw(triples, column, n, rng) for part, n in zip(self._parts, counts, strict=True) if n]
        self.fallbacks = sum(part.fallbacks for part in self._parts)
        return np.concatenate(drawn, axis=1) if drawn else np.empty((len(triples), 0), dtype=np.int64)

    def draw_one(self, triples: Triples, column: int, rng: np.random.Generator) -> Ints:
        tossed = np.searchsorted(self._ends, rng.random(len(triples)), side="right").clip(max=len(self._parts) - 1)
        entities = np.empty(len(triples), dtype=np.int64)
        for number, part in enumerate(self._parts):
            entities[tossed == number] = part.draw_one(triples[tossed == number], column, rng)
        self.fallbacks = sum(part.fallbacks for part in self._parts)
        return entities

    def distribution(self, triples: Triples, column: int) -> Floats | None:
        total = np.zeros((len(triples), self.num_entities))
        for part, share in zip(self._parts, np.diff(self._ends, prepend=0.0).tolist(), strict=True):
            chances = part.distribution(triples, column)
            if chances is None:
                return None
            total += share * chances
        return total

    def see(self, model: "TrainedModel") -> None:
        for part in self._parts:
            part.see(model)

    def start(self, rng: np.random.Generator) -> None:
        for part in self._parts:
            part.start(rng)

    def learn(self, column: int, rewards: Floats, step: int) -> None:
        counts = self._counted[column]
        for part, n, end in zip(self._parts, counts, np.cumsum(counts).tolist(), strict=True):
            if n:
                part.learn(column, rewards[:, end - n : end], step)
