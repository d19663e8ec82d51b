"""Corruptions: triples made false by replacing the subject or the object.

A `Strategy` says which entities may stand in; `corrupt` puts them in, one side a corruption, never the predicate.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.corruptions import SIDES, STRATEGIES
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, TripleIndex

SUBJECT, OBJECT = 0, 2


class Strategy(ABC):
    """Draws replacements. It is built from the graph's training split alone.

    by_predicate  whether a draw depends on the predicate: positives that share corruptions must then share it, too
    tables        what it learns while a model is trained, `RowAdam`s by name, part of every checkpoint; none in most
    """

    by_predicate = False
    tables: Mapping[str, Any] = {}  # Any: the stages after the scores know no training

    def __init__(self, graph: KnowledgeGraph) -> None:
        if len(graph.entities) < 2:
            raise InputError("a graph needs at least two entities to be corrupted")
        self.num_entities = len(graph.entities)

    @abstractmethod
    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        """(n, 3) -> (n, count) entities to stand in `column` (SUBJECT or OBJECT), none equal to the one there."""

    def start(self, rng: np.random.Generator) -> None:  # noqa: B027 (most have nothing to start)
        """Before a training: what the tables start from."""

    def learn(self, column: int, rewards: Floats, step: int) -> None:  # noqa: B027 (most learn nothing)
        """After a step of training, from 1, where there are tables: the model's mean score (n, count) of what was last
        drawn for that column, with the positives that share it."""


class Mixture(Strategy):
    """Several strategies, each drawing its share of the replacements; fractions are tossed for at every draw."""

    def __init__(self, graph: KnowledgeGraph, shares: Mapping[str, float]) -> None:
        """`shares`: registered name -> share, above 0, of a whole that need not be 1."""
        super().__init__(graph)
        self._parts = [STRATEGIES.get(name)(graph) for name in shares]
        self._ends = np.cumsum(list(shares.values())) / sum(shares.values())
        self.by_predicate = any(part.by_predicate for part in self._parts)
        self._counted: dict[int, list[int]] = {}  # of a column's last draw, how many each part drew
        named = zip(shares, self._parts, strict=True)
        self.tables = {f"{name}.{key}": table for name, part in named for key, table in part.tables.items()}

    def _counts(self, count: int, rng: np.random.Generator) -> list[int]:
        """How many of `count` replacements each part draws."""
        if len(self._parts) == 1:
            return [count]
        ends = np.floor(self._ends * count + rng.random() + 1e-9).astype(int).clip(max=count)
        ends[-1] = count
        counts: list[int] = np.diff(ends, prepend=0).tolist()
        return counts

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        counts = self._counted[column] = self._counts(count, rng)
        drawn = [part.draw(triples, column, n, rng) for part, n in zip(self._parts, counts, strict=True) if n]
        return np.concatenate(drawn, axis=1) if drawn else np.empty((len(triples), 0), dtype=np.int64)

    def start(self, rng: np.random.Generator) -> None:
        for part in self._parts:
            part.start(rng)

    def learn(self, column: int, rewards: Floats, step: int) -> None:
        counts = self._counted[column]
        for part, n, end in zip(self._parts, counts, np.cumsum(counts).tolist(), strict=True):
            if n:
                part.learn(column, rewards[:, end - n : end], step)


@dataclass(frozen=True)
class Corruptions:
    """Corrupted triples and where they came from.

    triples  (m, 3)
    source   (m,) row of the positive each was made from
    dropped  corruptions that were filtered away as known facts
    """

    triples: Triples
    source: Ints
    dropped: int


def corrupt(
    positives: Triples,
    eta: int,
    strategy: Strategy,
    rng: np.random.Generator,
    sides: str = "both",
    known: TripleIndex | None = None,
) -> Corruptions:
    """Corrupt every positive (n, 3) eta times, replacing s or o by another entity (paper, section 4).

    sides  "both" tosses a fair coin for each corruption
    known  facts to drop from the corruptions, or None to keep all of them (the paper's way)

    Raises InputError for eta < 1, unknown sides, or when filtering leaves nothing.
    """
    if eta < 1:
        raise InputError(f"eta is {eta}: it must be at least 1")
    if sides not in SIDES:
        raise InputError(f"sides is {sides!r}: it must be one of {', '.join(SIDES)}")
    source = np.repeat(np.arange(len(positives)), eta)
    triples = positives[source]
    on_subject: Bools = rng.random(len(triples)) < 0.5 if sides == "both" else np.full(len(triples), sides == "subject")
    for column, rows in ((SUBJECT, on_subject), (OBJECT, ~on_subject)):
        triples[rows, column] = strategy.draw(triples[rows], column, 1, rng)[:, 0]
    keep = ~known.contains(triples) if known is not None else np.ones(len(triples), dtype=bool)
    if len(triples) and not keep.any():
        raise InputError("every corruption is a known fact: there is nothing to calibrate against")
    return Corruptions(triples[keep], source[keep], int((~keep).sum()))


def corrupt_held_out(
    graph: KnowledgeGraph, eta: int, strategy: Strategy, rng: np.random.Generator, sides: str, filtered: bool
) -> dict[str, Corruptions]:
    """Split -> corruptions: of the validation positives, and of the test positives where no negative is labelled.

    What is fitted is filtered by train and valid alone; what only measures, by test, too, and always.
    """
    known = graph.known if filtered else None
    made = {"valid": corrupt(graph.valid.positives, eta, strategy, rng, sides, known)}
    if not graph.labelled:
        made["test"] = corrupt(graph.test.positives, eta, strategy, rng, sides, graph.all_known)
    return made
