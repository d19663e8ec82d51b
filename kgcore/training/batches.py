"""The steps of an epoch: which positives, and how many of them share their corruptions."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints


@dataclass(frozen=True)
class Batches:
    """Cuts the shuffled positives into steps of `size`, and these into chunks of `chunk` that share corruptions.

    Where corruptions depend on the predicate (`by_predicate`), a chunk has one: the positives of a predicate fill as
    many chunks as they can, and what is left over of them goes in steps in which every positive draws its own.

    predicates  (n,) of the positives
    """

    predicates: Ints
    size: int
    chunk: int
    by_predicate: bool

    def draw(self, rng: np.random.Generator) -> list[tuple[Ints, int]]:
        """The steps of an epoch: rows of positives and the chunk that they are cut into; each positive once."""
        order = rng.permutation(len(self.predicates))
        if self.chunk == 1 or not self.by_predicate:
            return self._cut(order, self.chunk)
        order = order[np.argsort(self.predicates[order], kind="stable")]
        counts = np.bincount(self.predicates)
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)  # within the predicate
        whole = place < np.repeat(counts // self.chunk * self.chunk, counts)
        chunks = rng.permutation(order[whole].reshape(-1, self.chunk))
        steps = self._cut(chunks.ravel(), self.chunk) + self._cut(rng.permutation(order[~whole]), 1)
        return [steps[number] for number in rng.permutation(len(steps))]

    def __len__(self) -> int:
        """Steps an epoch."""
        if self.chunk == 1 or not self.by_predicate:
            return -(-len(self.predicates) // self.size)
        whole = int((np.bincount(self.predicates) // self.chunk * self.chunk).sum())
        return -(-whole // self.size) - (-(len(self.predicates) - whole) // self.size)

    def _cut(self, order: Ints, chunk: int) -> list[tuple[Ints, int]]:
        return [(order[start : start + self.size], chunk) for start in range(0, len(order), self.size)]
