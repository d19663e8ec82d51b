"""The base class of corruption strategies, and the functions that corrupt positives.

A `Strategy` draws entities. `corrupt` uses them to replace the subject or the object of triples, never the predicate.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples, Weights, sorted_distinct
from kgcore.config import CorruptConfig
from kgcore.config.base import object_share
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.errors import InputError
from kgcore.registries import STRATEGIES

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel
    from kgcore.embed.optimisers.base import RowAdam

SUBJECT, OBJECT = 0, 2
REDRAWS = 10  # how often a corruption that is a known fact is drawn again


class DrawnHits:
    """Counts how often each positive (n, 3) would be among drawn corruptions of the others, if it were a hidden fact.

    Corruptions of valid are no facts of train or valid, but some are facts that no split may tell: hidden facts. Valid
    was left out of train in the same way. So each fact of valid shows how often a hidden fact is among the corruptions:
    see kgcore/calibrate/hidden.py. Hits are computed as if this fact alone were hidden, and all others known (leave
    one out). Then the chance of a hit is that of a hidden fact. Hits are counted for each replaced side, because a
    split by cold entities hides other facts from each: see `hidden_hits`. Leaving all facts of valid unfiltered would
    not do: a positive with many hidden facts has few false corruptions, and each of its corruptions counts the more.

    seen  the known facts that are no hits: those of train
    """

    def __init__(self, positives: Triples, seen: TripleIndex) -> None:
        self._positives, self._seen = positives, seen
        self._rows: list[Ints] = []
        self._triples: list[Triples] = []

    def add(self, triples: Triples, rows: Ints) -> None:
        """Add draws (k, 3) that are known facts, and that are drawn again or dropped. rows (k,): their corruptions."""
        outside = ~self._seen.contains(triples)
        self._triples.append(triples[outside])
        self._rows.append(rows[outside])

    def for_each(self, kept: Bools, source: Ints) -> Floats:
        """Return the hits (n, 2) for each kept corruption.

        kept    (m,) mask of the corruptions that are no known facts in the end
        source  (m,) the positive of each corruption

        If a positive were hidden, its first draw for a corruption would be kept. So it counts once for a corruption.
        """
        triples, rows = np.concatenate(self._triples), np.concatenate(self._rows)
        _, first = np.unique(np.stack([rows, self._seen.keys(triples)], axis=1), axis=0, return_index=True)
        triples, source = triples[first], source[rows[first]]
        return hits_of(triples, np.ones(len(first)), source, self._positives, self._seen) / max(int(kept.sum()), 1)


def hits_of(triples: Triples, weights: Weights, source: Ints, positives: Triples, index: TripleIndex) -> Floats:
    """Return the weight of the triples (k, 3) that are equal to each positive: (n, 3) -> (n, 2).

    weights  (k,) of the triples. Equal positives share the weight
    source   (k,) the positive that each triple is a corruption of. The first column has the weight of the triples that
             replace its subject, the second of those that replace its object
    index    any facts of the graph, for its keys
    """
    keys, place, times = np.unique(index.keys(positives), return_inverse=True, return_counts=True)
    asked, on_object = index.keys(triples), triples[:, 0] == positives[source, 0]
    place_of = np.searchsorted(keys, asked).clip(max=len(keys) - 1)
    equal = keys[place_of] == asked
    counts = np.bincount(2 * place_of[equal] + on_object[equal], weights[equal], 2 * len(keys)).reshape(-1, 2)
    return (counts / times[:, None])[place]


def subject_shares(graph: KnowledgeGraph, sides: str) -> Floats:
    """Return, for each predicate, the share of its corruptions that replace the subject: (R,).

    The other corruptions replace the object. The shares for each value of `sides`:

    subject          1
    object           0
    object=SHARE     1 - SHARE
    both             1/2 (paper, section 4)
    bernoulli        tph / (tph + hpt), where tph is the predicate's mean number of objects per subject in training, and
                     hpt its mean number of subjects per object. For a predicate with one object per subject, such as
                     `gender`, most corruptions replace the object, so that they are rarely true. 1/2 for a predicate
                     without training triples. Wang et al., "Knowledge Graph Embedding by Translating on
                     Hyperplanes", AAAI 2014, section 4.

    Raises InputError if `sides` has another value.
    """
    if (share := object_share(sides)) is not None:
        return np.full(len(graph.predicates), 1 - share)
    train, size = graph.train.positives, len(graph.entities)
    subjects, objects = (
        np.bincount(sorted_distinct(train[:, 1] * size + train[:, column]) // size, minlength=len(graph.predicates))
        for column in (0, 2)
    )
    # tph = triples / subjects and hpt = triples / objects, so the number of triples cancels out
    return np.where(subjects + objects > 0, objects / np.maximum(subjects + objects, 1), 0.5)


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
        return self.draw(triples, column, 1, rng)[:, 0]

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
               fact, for each corruption, by replaced subject and by replaced object: see `DrawnHits`.
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

    shares  (R,) probability that a corruption replaces the subject, for each predicate: see `subject_shares`
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


class Mixture(Strategy):
    """A combination of strategies. Each strategy draws its share of the entities for every triple.

    `draw` rounds share x `count` up or down at random, so that its expected value is exact. The numbers are the same
    for all triples of a draw. `draw_one` chooses a strategy at random for each triple.

    parts  the strategies
    ends   the sum of the shares up to and including each strategy; the last one is 1
    """

    def __init__(self, graph: KnowledgeGraph, shares: Mapping[str, float]) -> None:
        """Combine strategies. `shares` maps registered names to shares above 0, which are divided by their sum."""
        super().__init__(graph)
        self.parts = [STRATEGIES.get(name)(graph) for name in shares]
        self.ends = np.cumsum(list(shares.values())) / sum(shares.values())
        self.by_predicate = any(part.by_predicate for part in self.parts)
        self.by_model = any(part.by_model for part in self.parts)
        self.by_batch = any(part.by_batch for part in self.parts)
        self._counted: dict[int, list[int]] = {}  # column -> number of entities that each strategy drew last
        named = zip(shares, self.parts, strict=True)
        self.tables = {f"{name}.{key}": table for name, part in named for key, table in part.tables.items()}

    def _counts(self, count: int, rng: np.random.Generator) -> list[int]:
        """Divide `count` among the strategies: return the number of entities that each one draws."""
        if len(self.parts) == 1:
            return [count]
        ends = np.floor(self.ends * count + rng.random() + 1e-9).astype(int).clip(max=count)
        ends[-1] = count
        counts: list[int] = np.diff(ends, prepend=0).tolist()
        return counts

    def draw(self, triples: Triples, column: int, count: int, rng: np.random.Generator) -> Ints:
        counts = self._counted[column] = self._counts(count, rng)
        drawn = [part.draw(triples, column, n, rng) for part, n in zip(self.parts, counts, strict=True) if n]
        self.fallbacks = sum(part.fallbacks for part in self.parts)
        return np.concatenate(drawn, axis=1) if drawn else np.empty((len(triples), 0), dtype=np.int64)

    def draw_one(self, triples: Triples, column: int, rng: np.random.Generator) -> Ints:
        tossed = np.searchsorted(self.ends, rng.random(len(triples)), side="right").clip(max=len(self.parts) - 1)
        entities = np.empty(len(triples), dtype=np.int64)
        for number, part in enumerate(self.parts):
            entities[tossed == number] = part.draw_one(triples[tossed == number], column, rng)
        self.fallbacks = sum(part.fallbacks for part in self.parts)
        return entities

    def distribution(self, triples: Triples, column: int) -> Floats | None:
        total = np.zeros((len(triples), self.num_entities))
        for part, share in zip(self.parts, np.diff(self.ends, prepend=0.0).tolist(), strict=True):
            chances = part.distribution(triples, column)
            if chances is None:
                return None
            total += share * chances
        return total

    def see(self, model: "TrainedModel") -> None:
        for part in self.parts:
            part.see(model)

    def start(self, rng: np.random.Generator) -> None:
        for part in self.parts:
            part.start(rng)

    def learn(self, column: int, rewards: Floats, step: int) -> None:
        counts = self._counted[column]
        for part, n, end in zip(self.parts, counts, np.cumsum(counts).tolist(), strict=True):
            if n:
                part.learn(column, rewards[:, end - n : end], step)


def strategy_of(graph: KnowledgeGraph, config: CorruptConfig, model: "TrainedModel | None") -> Mixture:
    """Return the strategies of the settings for a graph. `model` is needed if one of them draws with a model."""
    strategy = Mixture(graph, config.calibration_strategy)
    if strategy.by_model and model is not None:
        strategy.see(model)
    return strategy
