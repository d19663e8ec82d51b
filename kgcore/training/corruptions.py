"""The corruptions of a step: the replacing entities, and the mask of the corruptions that do not count."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.config import TrainConfig
from kgcore.config.choices import object_share
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.corruptions.mixture import Mixture
from kgcore.corruptions.sides import subject_shares
from kgcore.graph import KnowledgeGraph


@dataclass(frozen=True)
class SharedCorruptions:
    """The corruptions of b positives in chunks of c that share them.

    subjects  (b / c, m) entities that replace the subjects of a chunk
    objects   (b / c, n) entities that replace the objects of a chunk
    left_out  (b, n + m) mask of the corruptions that do not count for a positive, objects first, as in the scores: the
              positive's own entity, draws beyond eta, and known facts if these are filtered
    """

    subjects: Ints
    objects: Ints
    left_out: Bools


class StepCorruptions:
    """Draws eta corruptions for each chunk of positives, which share them.

    With inverse predicates only objects are replaced. Their number is the share of the object side for a predicate, the
    share of the subject side for its inverse, and at least one.

    by_predicate  whether all positives of a chunk must have the same predicate
    """

    def __init__(self, graph: KnowledgeGraph, config: TrainConfig, rng: np.random.Generator) -> None:
        self.strategy = Mixture(graph, config.training_strategy)
        self._eta, self._rng = config.training_eta, rng
        share = object_share(config.training_sides)
        self._object_share = 0.5 if share is None else share
        self._shares = subject_shares(graph, "bernoulli") if share is None else None
        self._inverse = config.inverse_relations
        if self._inverse and self._shares is None:
            self._shares = np.repeat([1 - self._object_share, self._object_share], len(graph.predicates) // 2)
        differ = self._shares is not None and bool(np.ptp(self._shares))
        self.by_predicate = self.strategy.by_predicate or differ
        self._known = graph.index(graph.train.positives) if config.training_filtered else None

    def draw(self, batch: Triples, chunk: int) -> SharedCorruptions:
        """The corruptions of the positives (b, 3), b a multiple of `chunk`."""
        leaders = batch[::chunk]
        on_subject = self._on_subject(leaders)
        most_subjects, most_objects = self._largest_counts(on_subject)
        on_object = self._eta - on_subject
        if self._inverse:
            on_subject, most_subjects = np.zeros_like(on_subject), 0
            on_object, most_objects = np.maximum(on_object, 1), max(most_objects, 1)
        subjects = self.strategy.draw(leaders, SUBJECT, most_subjects, self._rng)
        objects = self.strategy.draw(leaders, OBJECT, most_objects, self._rng)
        left_out: Bools = np.concatenate(
            [
                self._left_out(batch, chunk, OBJECT, objects, on_object),
                self._left_out(batch, chunk, SUBJECT, subjects, on_subject),
            ],
            axis=1,
        )
        return SharedCorruptions(subjects, objects, left_out)

    def _on_subject(self, leaders: Triples) -> Ints:
        """The number of the eta corruptions that replace the subject, for each chunk.

        If this is not a whole number, its fraction is the probability of one more. The random draw is made once for the
        step, or once for each chunk if the shares of the predicates differ.
        """
        if self._shares is None:
            on_object = int(np.floor(self._eta * self._object_share + self._rng.random()))
            return np.full(len(leaders), self._eta - on_object)
        expected = self._eta * self._shares[leaders[:, 1]]
        counts: Ints = np.floor(expected + self._rng.random(len(leaders))).astype(np.int64)
        return counts

    def _largest_counts(self, on_subject: Ints) -> tuple[int, int]:
        """The largest numbers of subjects and of objects that a chunk can need.

        If shares differ, every step draws these numbers for every chunk. All arrays then have one shape, which is
        compiled once. Draws that a chunk does not need are left out.
        """
        possible = on_subject if self._shares is None else self._eta * self._shares
        return int(np.ceil(possible.max())), self._eta - int(np.floor(possible.min()))

    def _left_out(self, batch: Triples, chunk: int, column: int, drawn: Ints, counts: Ints) -> Bools:
        """Mask (b, n) of the entities (b / chunk, n) drawn for a column that do not count for a positive.

        counts  (b / chunk,) the number of drawn entities that each chunk needs
        """
        unneeded = np.arange(drawn.shape[1]) >= counts[:, None]
        own = batch[:, column].reshape(-1, chunk, 1) == drawn[:, None, :]
        left_out: Bools = (own | unneeded[:, None, :]).reshape(len(batch), -1)
        if self._known is not None:
            corrupted = np.repeat(batch, drawn.shape[1], axis=0)
            corrupted[:, column] = np.repeat(drawn, chunk, axis=0).ravel()
            left_out |= self._known.contains(corrupted).reshape(len(batch), -1)
        return left_out
