"""The positives of a training step: the division of an epoch into steps and chunks, and the corruptions of a chunk."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Ints, Probabilities, Triples
from kgcore.config import TrainConfig
from kgcore.config.base import object_share
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Mixture, subject_shares


@dataclass(frozen=True)
class SharedCorruptions:
    """The corruptions of b positives in chunks of c. The positives of a chunk share their corruptions.

    subjects  (b / c, m) entities that replace the subjects of a chunk
    objects   (b / c, n) entities that replace the objects of a chunk
    left_out  (b, n + m) mask, True where the loss of a positive ignores a corruption. The n objects come first, as in
              the scores. The loss ignores the positive's own entity, draws beyond eta, and, if the settings filter
              known facts, corruptions that are known facts
    """

    subjects: Ints
    objects: Ints
    left_out: Bools


class StepCorruptions:
    """A generator of corruptions. The positives of a chunk share eta corruptions.

    With inverse predicates only objects are replaced. A predicate then gets the object side's part of eta, and its
    inverse gets the subject side's part. Each gets at least one corruption.

    strategy      the corruption strategies of training, mixed in their shares
    eta           number of corruptions of a chunk
    shares        (R,) share of the corruptions that replace the subject, for each predicate
    by_chunk      whether the random rounding of each chunk's share has its own random number
    inverse       whether the graph has inverse predicates
    filtered      whether the loss ignores corruptions that are known facts
    by_predicate  whether all positives of a chunk must have the same predicate
    """

    def __init__(self, graph: KnowledgeGraph, config: TrainConfig, rng: np.random.Generator) -> None:
        self.strategy = Mixture(graph, config.training_strategy)
        self.eta, self._rng = config.training_eta, rng
        share = object_share(config.training_sides)
        self._object_share = 0.5 if share is None else share
        self.inverse, self.filtered = config.inverse_relations, config.training_filtered
        self.by_chunk = share is None or self.inverse
        if share is None:
            self.shares = subject_shares(graph, "bernoulli")
        elif self.inverse:
            self.shares = np.repeat([1 - share, share], len(graph.predicates) // 2)
        else:
            self.shares = np.full(len(graph.predicates), 1 - share)
        self.by_predicate = self.strategy.by_predicate or (self.by_chunk and bool(np.ptp(self.shares)))
        self._known = graph.index(graph.train.positives) if self.filtered else None

    @property
    def most(self) -> dict[int, int]:
        """Return column -> the largest number of entities that a chunk of any step needs for it.

        If each predicate has its own share, every chunk of every step draws these numbers. All arrays then have the
        same shape, so that the code is compiled only once. The mask leaves out the draws that a chunk does not need.
        """
        possible = self.eta * self.shares
        subjects, objects = int(np.ceil(possible.max())), self.eta - int(np.floor(possible.min()))
        return {SUBJECT: 0, OBJECT: max(objects, 1)} if self.inverse else {SUBJECT: subjects, OBJECT: objects}

    def draw(self, batch: Triples, chunk: int) -> SharedCorruptions:
        """Draw the corruptions of the positives (b, 3). b must be a multiple of `chunk`."""
        leaders = batch[::chunk]
        on_subject = self._on_subject(leaders)
        on_object = self.eta - on_subject
        most = self.most if self.by_chunk else {SUBJECT: int(on_subject[0]), OBJECT: int(on_object[0])}
        if self.inverse:
            on_subject, on_object = np.zeros_like(on_subject), np.maximum(on_object, 1)
        subjects = self.strategy.draw(leaders, SUBJECT, most[SUBJECT], self._rng)
        objects = self.strategy.draw(leaders, OBJECT, most[OBJECT], self._rng)
        left_out: Bools = np.concatenate(
            [
                self._left_out(batch, chunk, OBJECT, objects, on_object),
                self._left_out(batch, chunk, SUBJECT, subjects, on_subject),
            ],
            axis=1,
        )
        return SharedCorruptions(subjects, objects, left_out)

    def _on_subject(self, leaders: Triples) -> Ints:
        """Return how many of the eta corruptions replace the subject, for each chunk.

        If the expected number is not whole, it is randomly rounded down or up, so that its mean is right. All chunks of
        a step use one random number. If each predicate has its own share, each chunk uses its own random number.

        leaders  (chunks, 3) the first positive of each chunk
        """
        if not self.by_chunk:
            on_object = int(np.floor(self.eta * self._object_share + self._rng.random()))
            return np.full(len(leaders), self.eta - on_object)
        expected = self.eta * self.shares[leaders[:, 1]]
        return np.floor(expected + self._rng.random(len(leaders))).astype(np.int64)

    def _left_out(self, batch: Triples, chunk: int, column: int, drawn: Ints, counts: Ints) -> Bools:
        """Return the mask (b, n) of one side's corruptions, True where the loss of a positive ignores a corruption.

        column  the side: SUBJECT or OBJECT
        drawn   (b / chunk, n) the entities drawn for each chunk
        counts  (b / chunk,) the number of drawn entities that each chunk needs; it ignores the others
        """
        unneeded = np.arange(drawn.shape[1]) >= counts[:, None]
        own = batch[:, column].reshape(-1, chunk, 1) == drawn[:, None, :]
        left_out: Bools = (own | unneeded[:, None, :]).reshape(len(batch), -1)
        if self._known is not None:
            corrupted = np.repeat(batch, drawn.shape[1], axis=0)
            corrupted[:, column] = np.repeat(drawn, chunk, axis=0).ravel()
            left_out |= self._known.contains(corrupted).reshape(len(batch), -1)
        return left_out


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
        order, whole = rng.permutation(len(self.predicates)), self.whole()
        if whole is None:
            return self._cut(order, self.chunk)
        order = order[np.argsort(self.predicates[order], kind="stable")]
        chunks = rng.permutation(order[whole].reshape(-1, self.chunk))
        steps = self._cut(chunks.ravel(), self.chunk) + self._cut(rng.permutation(order[~whole]), 1)
        return [steps[number] for number in rng.permutation(len(steps))]

    def __len__(self) -> int:
        """Return the number of steps in an epoch."""
        mask = self.whole()
        if mask is None:
            return -(-len(self.predicates) // self.size)
        whole = int(mask.sum())
        return -(-whole // self.size) - (-(len(self.predicates) - whole) // self.size)

    def whole(self) -> Bools | None:
        """Return the mask (n,) of the positives in whole chunks, when they are sorted by predicate. None: all are."""
        if self.chunk == 1 or not self.by_predicate:
            return None
        counts = np.bincount(self.predicates)
        place = np.arange(len(self.predicates)) - np.repeat(np.cumsum(counts) - counts, counts)  # within the predicate
        whole: Bools = place < np.repeat(counts // self.chunk * self.chunk, counts)
        return whole

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
