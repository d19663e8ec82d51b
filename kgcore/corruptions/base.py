"""The contract of a corruption strategy, and the corruptions of given positives.

A `Strategy` draws the entities; `corrupt` replaces one side of each triple by them, never the predicate.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.corruptions.sides import subject_shares
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, TripleIndex

if TYPE_CHECKING:
    from kgcore.adam import RowAdam
    from kgcore.models.trained import TrainedModel

SUBJECT, OBJECT = 0, 2


class Strategy(ABC):
    """Draws the entities that replace a subject or an object. It uses the graph's training split only.

    by_predicate  whether a draw depends on the predicate; if so, positives that share corruptions have one predicate
    by_model      whether a draw depends on a model; if so, the strategy must `see` a model before it draws
    tables        the tables that it learns during training, by name, part of every checkpoint; empty in most strategies
    fallbacks     number of entities so far that a simpler strategy had to draw, because there was no candidate
    """

    by_predicate = False
    by_model = False
    tables: Mapping[str, "RowAdam"] = {}

    def __init__(self, graph: KnowledgeGraph) -> None:
        if len(graph.entities) < 2:
            raise InputError(f"the graph has {len(graph.entities)} entities: corruptions need at least 2")
        self.num_entities = len(graph.entities)
        self.fallbacks = 0

    @abstractmethod
    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        """(n, 3) -> (n, count) entities for `column` (SUBJECT or OBJECT), none equal to the triple's own."""

    def draw_one(self, triples: Triples, column: int, rng: np.random.Generator) -> Ints:
        """(n, 3) -> (n,): one entity for each triple, each an independent draw."""
        drawn: Ints = self.draw(triples, column, 1, rng)[:, 0]
        return drawn

    def see(self, model: "TrainedModel") -> None:  # noqa: B027 (most strategies draw without a model)
        """Set the model for the draws. Called before every epoch of training, and before held-out corruptions."""

    def start(self, rng: np.random.Generator) -> None:  # noqa: B027 (most strategies have no tables)
        """Initialise the tables. Called once before a training."""

    def learn(self, column: int, rewards: Floats, step: int) -> None:  # noqa: B027 (most strategies learn nothing)
        """Update the tables. Called after each training step, for each column, if there are tables.

        rewards  (n, count) the model's mean score of each entity last drawn for that column, over the positives that
                 share it
        step     the number of the training step, from 1
        """


@dataclass(frozen=True)
class Corruptions:
    """Corrupted triples and their positives.

    triples    (m, 3)
    source     (m,) row of the positive that each was made from
    dropped    number of corruptions that were dropped as known facts
    fallbacks  number of entities that a simpler strategy had to draw
    """

    triples: Triples
    source: Ints
    dropped: int
    fallbacks: int = 0


def corrupt(
    positives: Triples,
    eta: int,
    strategy: Strategy,
    rng: np.random.Generator,
    shares: Floats,
    known: TripleIndex | None = None,
) -> Corruptions:
    """Corrupt every positive (n, 3) eta times, replacing s or o by another entity (paper, section 4).

    shares  (R,) the probability, by predicate, that a corruption replaces the subject: see `subject_shares`
    known   facts to drop from the corruptions; None = keep all corruptions, as in the paper

    Raises InputError if eta < 1, or if every corruption is a known fact.
    """
    if eta < 1:
        raise InputError(f"eta is {eta}: it must be at least 1")
    source, before = np.repeat(np.arange(len(positives)), eta), strategy.fallbacks
    triples = positives[source]
    on_subject: Bools = rng.random(len(triples)) < shares[triples[:, 1]]
    for column, rows in ((SUBJECT, on_subject), (OBJECT, ~on_subject)):
        triples[rows, column] = strategy.draw_one(triples[rows], column, rng)
    keep = ~known.contains(triples) if known is not None else np.ones(len(triples), dtype=bool)
    if len(triples) and not keep.any():
        raise InputError(f"all {len(triples):,} corruptions are known facts: use another strategy, or do not filter")
    return Corruptions(triples[keep], source[keep], int((~keep).sum()), strategy.fallbacks - before)


def corrupt_held_out(
    graph: KnowledgeGraph, eta: int, strategy: Strategy, rng: np.random.Generator, sides: str, filtered: bool
) -> dict[str, Corruptions]:
    """Corruptions by split: of the validation positives, and of the test positives if no negatives are labelled.

    Calibrators are fitted to the validation corruptions: `filtered` drops the facts of train and valid, never those of
    test. The test corruptions serve evaluation only: the facts of all splits are always dropped.

    Raises InputError if `sides` is unknown.
    """
    known, shares = graph.known if filtered else None, subject_shares(graph, sides)
    made = {"valid": corrupt(graph.valid.positives, eta, strategy, rng, shares, known)}
    if not graph.labelled:
        made["test"] = corrupt(graph.test.positives, eta, strategy, rng, shares, graph.all_known)
    return made
