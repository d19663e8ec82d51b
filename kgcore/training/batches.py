"""The division of an epoch into steps, and of a step into chunks. The positives of a chunk share their corruptions."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Ints, Probabilities, Triples
from kgcore.training.corruptions import SharedCorruptions


@dataclass(frozen=True)
class Batches:
    """The division of the shuffled positives into steps, and of each step into chunks that share corruptions.

    If corruptions depend on the predicate (`by_predicate`), all positives of a chunk have the same predicate. Each
    predicate fills as many whole chunks as possible. The positives that are left over form separate steps with chunks
    of one positive.

    predicates    (n,) the predicate of each positive
    size          number of positives in a step; the last step may have fewer
    chunk         number of positives in a chunk
    by_predicate  whether all positives of a chunk must have the same predicate
    """

    predicates: Ints
    size: int
    chunk: int
    by_predicate: bool

    def draw(self, rng: np.random.Generator) -> list[tuple[Ints, int]]:
        """Return the steps of an epoch: for each step, the indices of its positives and its chunk size.

        Each positive occurs in one step. The order is random.
        """
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
        """Return the number of steps in an epoch."""
        if self.chunk == 1 or not self.by_predicate:
            return -(-len(self.predicates) // self.size)
        whole = int((np.bincount(self.predicates) // self.chunk * self.chunk).sum())
        return -(-whole // self.size) - (-(len(self.predicates) - whole) // self.size)

    def _cut(self, order: Ints, chunk: int) -> list[tuple[Ints, int]]:
        return [(order[start : start + self.size], chunk) for start in range(0, len(order), self.size)]


@dataclass(frozen=True)
class TrainingBatch:
    """The positives of a step and their corruptions.

    positives    (b, 3) in whole chunks
    count        number of positives of this step. The other b - count rows repeat the last positive, to fill the last
                 chunk
    chunk        number of positives that share their corruptions
    corruptions  the replacements of subjects and objects, and the mask of the corruptions that the loss ignores
    confidences  (count,) confidences of the positives of this step; None: they are surely true
    """

    positives: Triples
    count: int
    chunk: int
    corruptions: SharedCorruptions
    confidences: Probabilities | None = None


def fill_last_chunk(positives: Triples, chunk: int) -> tuple[Triples, int]:
    """Extend the positives (b, 3) to whole chunks. Also return the chunk size, which is at most b.

    If the last chunk is too short, copies of the last positive fill it. The caller leaves out the loss of these copies.
    """
    chunk = min(chunk, len(positives))
    missing = -len(positives) % chunk
    if missing:
        positives = np.concatenate([positives, np.repeat(positives[-1:], missing, axis=0)])
    return positives, chunk
