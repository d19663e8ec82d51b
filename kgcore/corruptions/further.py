"""Corruptions beyond those that fit in memory: all of them, or as many draws as a base rate needs, block by block."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kgcore.arrays import Floats, Ints, Triples, Weights
from kgcore.corruptions.base import Strategy, corrupt
from kgcore.corruptions.every import blocks_of_all, estimated_number
from kgcore.graph import TripleIndex

DRAWS = 2**20  # draws in a block


@dataclass(frozen=True)
class Looked:
    """A block of corruptions: triples (m, 3), and the number of equal draws that each stands for, above 0 (m,).

    If these are all corruptions, the weights of each positive sum to 1; if they are drawn, each weight is 1.
    positives  number of positives among those of the block that have a corruption, by predicate: (R,)
    """

    triples: Triples
    weights: Weights
    positives: Ints


@dataclass(frozen=True)
class Further:
    """Where further corruptions come from.

    positives (n, 3), and their eta corruptions each that were drawn already
    looks     number of corruptions to look at: see `CorruptConfig.looks_at`
    strategy, shares, known  as in `corrupt`
    rng       random generator of the draws
    """

    positives: Triples
    eta: int
    looks: int
    strategy: Strategy
    shares: Floats
    known: TripleIndex | None
    rng: np.random.Generator

    @cached_property
    def number(self) -> float | None:
        """The number of all corruptions, by estimate, known facts included; None if it is not known."""
        return estimated_number(self.positives, self.strategy, self.shares)

    @property
    def every(self) -> bool:
        """Whether all corruptions are looked at: they are, by estimate, at most `looks`."""
        return self.number is not None and self.number <= self.looks

    @property
    def most(self) -> int:
        """The number of corruptions to look at, by estimate."""
        return round(self.number) if self.every and self.number is not None else self.looks

    def all(self) -> Iterator[Looked]:
        """Make all corruptions of each positive, with their probabilities, given that they are not known facts."""
        for block in blocks_of_all(self.positives, self.strategy, self.shares, self.known):
            assert block is not None, "a strategy that tells the number of its corruptions knows their probabilities"
            totals = np.bincount(block.source, block.chances, len(self.positives))
            used = self.positives[totals > 0, 1]
            weights = block.chances / totals[block.source]
            yield Looked(block.triples, weights, np.bincount(used, minlength=len(self.shares)))

    def draws(self) -> Iterator[Looked]:
        """Draw the corruptions that are missing, in blocks of about DRAWS: the same number for each positive."""
        number = len(self.positives)
        left, size = -(-self.looks // number) - self.eta, max(1, DRAWS // number)
        for done in range(0, left, size):
            for start in range(0, number, DRAWS):
                own = self.positives[start : start + DRAWS]
                made = corrupt(own, min(size, left - done), self.strategy, self.rng, self.shares, self.known)
                none = np.zeros(len(self.shares), dtype=np.int64)
                yield Looked(made.triples, np.ones(len(made.triples)), none)
