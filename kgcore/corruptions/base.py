"""The base class of corruption strategies, and the functions that corrupt positives.

A `Strategy` draws entities. `corrupt` uses them to replace the subject or the object of triples, never the predicate.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples, Weights
from kgcore.corruptions.hits import DrawnHits
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, TripleIndex

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel
    from kgcore.optimisers.adam import RowAdam

SUBJECT, OBJECT = 0, 2
REDRAWS = 10  # how often a corruption that is a known fact is drawn again


class Strategy(ABC):
    """A way to draw the entities that replace a subject or an object. It uses only the training split of the graph.

    by_predicate  whether a draw depends on the predicate; if so, positives that share corruptions have one predicate
    by_model      whether a draw depends on a model; if so, `see` must be called before the first draw
    by_batch      whether a draw depends on the other triples that are corrupted with it
    tables        name -> table that the strategy learns during training. Every checkpoint contains the tables; most
                  strategies have none
    fallbacks     number of entities drawn so far by a simpler strategy, because this strategy found no candidate
    """

    by_predicate = False
    by_model = False
    by_batch = False
    tables: Mapping[str, "RowAdam"] = {}

    def __init__(self, graph: KnowledgeGraph) -> None:
        if len(graph.entities) < 2:
            raise InputError(f"the graph has {len(graph.entities)} entities: corruptions need at least 2")
        self.num_entities = len(graph.entities)
        self.fallbacks = 0

    @abstractmethod
    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        """Draw entities (n, count) to replace the `column` (SUBJECT or OBJECT) of triples (n, 3).

        No entity is equal to the one that it replaces.
        """

    def draw_one(self, triples: Triples, column: int, rng: np.random.Generator) -> Ints:
        """Draw one entity (n,) for each triple (n, 3), independently of the other triples."""
        drawn: Ints = self.draw(triples, column, 1, rng)[:, 0]
        return drawn

    def distribution(self, triples: Triples, column: int) -> Floats | None:
        """Return the probability (n, E) of each entity in one draw for each triple (n, 3), or None if it is not known.

        Each row sums to 1, and the entity that is replaced has the probability 0. None: the strategy has no formula for
        it, and its corruptions can only be drawn. Memory: n E numbers of 8 bytes.
        """
        return None

    def see(self, model: "TrainedModel") -> None:  # noqa: B027 (most strategies draw without a model)
        """Use this model in the next draws.

        Called before every epoch of training, and before valid and test are corrupted.
        """

    def start(self, rng: np.random.Generator) -> None:  # noqa: B027 (most strategies have no tables)
        """Set the tables to their initial values. Called once, before training."""

    def learn(self, column: int, rewards: Floats, step: int) -> None:  # noqa: B027 (most strategies learn nothing)
        """Update the tables. If the strategy has tables, training calls this method once per step and column.

        rewards  (n, count) one number for each entity of the last draw for the column: the mean of the model's scores
                 of the corruptions with this entity, over the positives that share it
        step     the number of the training step, from 1
        """


@dataclass(frozen=True)
class Corruptions:
    """Corruptions, and the positives that they were made from.

    triples    (m, 3)
    source     (m,) row of the positive that each corruption was made from
    dropped    number of corruptions that are missing, because every draw was a known fact
    fallbacks  number of entities that a simpler strategy drew, because there was no candidate
    redrawn    number of corruptions whose first draw was a known fact, and that were drawn again
    weights    (m,) above 0, with mean 1, if these are all corruptions of each positive: see `every_corruption`. None:
               they were drawn, and each of them counts the same
    hits       (n, 2) at least 0: how often each of the n positives would be among the corruptions if it were a hidden
               fact, for each corruption, by replaced subject and by replaced object: see kgcore/corruptions/hits.py.
               None: they were not counted
    """

    triples: Triples
    source: Ints
    dropped: int
    fallbacks: int = 0
    redrawn: int = 0
    weights: Weights | None = None
    hits: Floats | None = None


def corrupt(
    positives: Triples,
    eta: int,
    strategy: Strategy,
    rng: np.random.Generator,
    shares: Floats,
    known: TripleIndex | None = None,
    seen: TripleIndex | None = None,
) -> Corruptions:
    """Corrupt every positive (n, 3) eta times: replace its subject or object by another entity (paper, section 4).

    shares  (R,) probability that a corruption replaces the subject, for each predicate: see kgcore/corruptions/sides.py
    known   facts that are not corruptions; None = keep all corruptions, as in the paper
    seen    those of them that are not among the positives: the facts of train. With it, `hits` are counted

    A corruption that is a known fact is drawn again, side and entity, up to REDRAWS times, and then dropped. So each
    positive keeps its eta corruptions where it can, and they have the distribution of the strategy, given that they are
    not known. Draws of a strategy `by_batch` are not repeated, because fewer triples have another distribution.

    Raises InputError if eta < 1, or if every corruption is a known fact.
    """
    if eta < 1:
        raise InputError(f"eta is {eta}: it must be at least 1")
    source, before = np.repeat(np.arange(len(positives)), eta), strategy.fallbacks
    triples = _corrupted(positives[source], strategy, rng, shares)
    keep = ~known.contains(triples) if known is not None else np.ones(len(triples), dtype=bool)
    again, redrawn = np.flatnonzero(~keep), 0
    counted = None if known is None or seen is None else DrawnHits(positives, seen)
    if known is not None and not strategy.by_batch:
        redrawn = len(again)
        for _ in range(REDRAWS):
            if not len(again):
                break
            if counted is not None:
                counted.add(triples[again], again)
            triples[again] = _corrupted(positives[source[again]], strategy, rng, shares)
            keep[again] = ~known.contains(triples[again])
            again = again[~keep[again]]
    if counted is not None:
        counted.add(triples[again], again)
    if len(triples) and not keep.any():
        raise InputError(
            f"all {len(triples):,} corruptions are known facts: use another strategy, or do not drop known facts"
        )
    hits = None if counted is None else counted.for_each(keep, source)
    return Corruptions(triples[keep], source[keep], int((~keep).sum()), strategy.fallbacks - before, redrawn, hits=hits)


def _corrupted(triples: Triples, strategy: Strategy, rng: np.random.Generator, shares: Floats) -> Triples:
    """Return the triples (n, 3), each with another subject or object. `triples` is changed in place."""
    on_subject: Bools = rng.random(len(triples)) < shares[triples[:, 1]]
    for column, rows in ((SUBJECT, on_subject), (OBJECT, ~on_subject)):
        triples[rows, column] = strategy.draw_one(triples[rows], column, rng)
    return triples
