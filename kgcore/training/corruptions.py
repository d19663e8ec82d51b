"""The corruptions of a step: which stand in for whom, and which of them do not count."""

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.config import TrainConfig
from kgcore.config.choices import object_share
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.corruptions.mixture import Mixture
from kgcore.corruptions.sides import subject_shares
from kgcore.graph import KnowledgeGraph


class StepCorruptions:
    """Draws eta corruptions for each chunk of positives, which share them. Where predicates have inverses only objects
    are replaced: of a predicate's triples the share of eta that falls to objects, of its inverse's the share that falls
    to subjects, and at least one.

    by_predicate  whether a chunk must have one predicate
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

    def draw(self, batch: Triples, chunk: int) -> tuple[Ints, Ints, Bools]:
        """For b positives in whole chunks: the entities (b / chunk, m) that replace subjects, those (b / chunk, n) that
        replace objects, and which do not count for a positive (b, n + m), objects first as the scores are: its own
        entity, and what is left out."""
        leaders = batch[::chunk]
        on_subject = self._on_subject(leaders)
        # where shares differ every step draws for the largest, so that it has one shape, which is compiled once
        ends = on_subject if self._shares is None else self._eta * self._shares
        most, least = int(np.ceil(ends.max())), int(np.floor(ends.min()))
        on_object, most_objects = self._eta - on_subject, self._eta - least
        if self._inverse:
            on_subject, most = np.zeros_like(on_subject), 0
            on_object, most_objects = np.maximum(on_object, 1), max(most_objects, 1)
        in_subject = self.strategy.draw(leaders, SUBJECT, most, self._rng)
        in_object = self.strategy.draw(leaders, OBJECT, most_objects, self._rng)
        blocks = []
        for column, stand_ins, used in ((OBJECT, in_object, on_object), (SUBJECT, in_subject, on_subject)):
            spare = np.arange(stand_ins.shape[1]) >= used[:, None]
            block = (batch[:, column].reshape(-1, chunk, 1) == stand_ins[:, None, :]) | spare[:, None, :]
            blocks.append(block.reshape(len(batch), -1))
            if self._known is not None:
                blocks[-1] |= self._facts(batch, chunk, column, stand_ins)
        left_out: Bools = np.concatenate(blocks, axis=1)
        return in_subject, in_object, left_out

    def _on_subject(self, leaders: Triples) -> Ints:
        """How many of a chunk's eta replace the subject. Where the share is no whole number the fraction is tossed for,
        once a step, or once a chunk where the predicates' shares differ."""
        if self._shares is None:
            on_object = int(np.floor(self._eta * self._object_share + self._rng.random()))
            return np.full(len(leaders), self._eta - on_object)
        expected = self._eta * self._shares[leaders[:, 1]]
        counts: Ints = np.floor(expected + self._rng.random(len(leaders))).astype(np.int64)
        return counts

    def _facts(self, batch: Triples, chunk: int, column: int, stand_ins: Ints) -> Bools:
        """(b, m): which corruptions are facts of the training split."""
        assert self._known is not None
        corrupted = np.repeat(batch, stand_ins.shape[1], axis=0)
        corrupted[:, column] = np.repeat(stand_ins, chunk, axis=0).ravel()
        return self._known.contains(corrupted).reshape(len(batch), -1)
