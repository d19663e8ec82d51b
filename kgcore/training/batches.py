"""The steps of an epoch: the positives of each step, in chunks that share corruptions."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints, Triples


@dataclass(frozen=True)
class Batches:
    """Cuts the shuffled positives into steps of `size`, and each step into chunks of `chunk` that share corruptions.

    If corruptions depend on the predicate (`by_predicate`), all positives of a chunk have the same predicate. The
    positives of a predicate fill as many chunks as possible. In the steps of the remaining positives, every positive
    has its own corruptions.

    predicates  (n,) the predicates of the positives
    """

    predicates: Ints
    size: int
    chunk: int
    by_predicate: bool

    def draw(self, rng: np.random.Generator) -> list[tuple[Ints, int]]:
        """The steps of an epoch: the rows of a step's positives, and its chunk size. Each positive occurs once."""
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
        """Steps per epoch."""
        if self.chunk == 1 or not self.by_predicate:
            return -(-len(self.predicates) // self.size)
        whole = int((np.bincount(self.predicates) // self.chunk * self.chunk).sum())
        return -(-whole // self.size) - (-(len(self.predicates) - whole) // self.size)

    def _cut(self, order: Ints, chunk: int) -> list[tuple[Ints, int]]:
        return [(order[start : start + self.size], chunk) for start in range(0, len(order), self.size)]


def fill_last_chunk(positives: Triples, chunk: int) -> tuple[Triples, int]:
    """The positives (b, 3) in whole chunks, and the chunk size, which is at most b.

    Copies of the last positive fill a short last chunk. The caller leaves out the loss of these copies.
    """
    chunk = min(chunk, len(positives))
    missing = -len(positives) % chunk
    if missing:
        positives = np.concatenate([positives, np.repeat(positives[-1:], missing, axis=0)])
    return positives, chunk
