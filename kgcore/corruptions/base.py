"""Corruptions: triples made false by replacing the subject or the object.

A `Strategy` says which entities may stand in; `corrupt` puts them in, one side a corruption, never the predicate.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.corruptions.sides import subject_shares
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, TripleIndex

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

SUBJECT, OBJECT = 0, 2


class Strategy(ABC):
    """Draws replacements. It is built from the graph's training split alone.

    by_predicate  whether a draw depends on the predicate: positives that share corruptions must then share it, too
    by_model      whether it draws by what a model makes of the triples: it must `see` one before it draws
    tables        what it learns while a model is trained, `RowAdam`s by name, part of every checkpoint; none in most
    fallbacks     replacements so far that had to be drawn by a simpler strategy, because there was no candidate
    """

    by_predicate = False
    by_model = False
    tables: Mapping[str, Any] = {}  # Any: the stages after the scores know no training

    def __init__(self, graph: KnowledgeGraph) -> None:
        if len(graph.entities) < 2:
            raise InputError("a graph needs at least two entities to be corrupted")
        self.num_entities = len(graph.entities)
        self.fallbacks = 0

    @abstractmethod
    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        """(n, 3) -> (n, count) entities to stand in `column` (SUBJECT or OBJECT), none equal to the one there."""

    def draw_one(self, triples: Triples, column: int, rng: np.random.Generator) -> Ints:
        """(n, 3) -> (n,): an entity for each triple, drawn by itself."""
        drawn: Ints = self.draw(triples, column, 1, rng)[:, 0]
        return drawn

    def see(self, model: "TrainedModel") -> None:  # noqa: B027 (most draw without one)
        """The model as it is now: before every epoch of its training, and before held-out triples are corrupted."""

    def start(self, rng: np.random.Generator) -> None:  # noqa: B027 (most have nothing to start)
        """Before a training: what the tables start from."""

    def learn(self, column: int, rewards: Floats, step: int) -> None:  # noqa: B027 (most learn nothing)
        """After a step of training, from 1, where there are tables: the model's mean score (n, count) of what was last
        drawn for that column, with the positives that share it."""


@dataclass(frozen=True)
class Corruptions:
    """Corrupted triples and where they came from.

    triples    (m, 3)
    source     (m,) row of the positive each was made from
    dropped    corruptions that were filtered away as known facts
    fallbacks  replacements that a simpler strategy had to draw
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

    shares  (R,) of each predicate the share of corruptions that replace the subject, tossed for: see `subject_shares`
    known   facts to drop from the corruptions, or None to keep all of them (the paper's way)

    Raises InputError for eta < 1, or when filtering leaves nothing.
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
        raise InputError("every corruption is a known fact: there is nothing to calibrate against")
    return Corruptions(triples[keep], source[keep], int((~keep).sum()), strategy.fallbacks - before)


def corrupt_held_out(
    graph: KnowledgeGraph, eta: int, strategy: Strategy, rng: np.random.Generator, sides: str, filtered: bool
) -> dict[str, Corruptions]:
    """Split -> corruptions: of the validation positives, and of the test positives where no negative is labelled.

    What is fitted is filtered by train and valid alone; what only measures, by test, too, and always.

    Raises InputError for unknown sides.
    """
    known, shares = graph.known if filtered else None, subject_shares(graph, sides)
    made = {"valid": corrupt(graph.valid.positives, eta, strategy, rng, shares, known)}
    if not graph.labelled:
        made["test"] = corrupt(graph.test.positives, eta, strategy, rng, shares, graph.all_known)
    return made
