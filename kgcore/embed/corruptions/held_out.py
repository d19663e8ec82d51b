"""The corruptions of the held-out splits: those that calibrators are fitted to, and those that measure them.

They are drawn, or they are all corruptions of each positive, with their probabilities as weights. Those that do not fit
in memory are made block by block, and the highest scores of this stream are kept."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Scores, Triples, Weights, sorted_distinct
from kgcore.config import CorruptConfig
from kgcore.data.graph import KnowledgeGraph, Split, TripleIndex
from kgcore.data.stored_twins import Twins
from kgcore.embed.corruptions.base import (
    OBJECT,
    SUBJECT,
    Corruptions,
    Strategy,
    corrupt,
    hits_of,
    strategy_of,
    subject_shares,
)
from kgcore.errors import InputError

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

CELLS = 2**21  # probabilities of a block of positives and one side, 16 MiB
SAMPLE = 16  # positives that tell first how many corruptions there are
NEGLIGIBLE = 1e-9  # less probable corruptions are left out; the best of 20 candidates is hardly ever the worst entity
DRAWS = 2**20  # draws in a block


def every_corruption(
    positives: Triples,
    most: int,
    strategy: Strategy,
    shares: Floats,
    known: TripleIndex | None = None,
    seen: TripleIndex | None = None,
) -> Corruptions | None:
    """Make all corruptions of every positive (n, 3), or return None if there are more than `most`.

    None is returned without counting them all if SAMPLE positives have so many that all have more than about 2 `most`.

    shares, known, seen  as in `corrupt`

    The weight of a corruption is proportional to the probability that one draw of `corrupt` gives it, if a draw that is
    a known fact is repeated without end. For a positive i with the probabilities p_ij of its side and its entity,

        w_ij = (m / n') p_ij / sum_j p_ij

    where the sum is over the corruptions of i that are kept, n' positives have any, and m is the number of all
    corruptions. So the weights have the mean 1, and every positive has the same total weight, as in a sample in which
    each positive has eta corruptions of weight 1. That sample estimates what these weights give exactly.

    None is returned, too, if the strategy does not know its probabilities: see `Strategy.distribution`. In the result,
    `dropped` is the number of positives without a corruption, and `redrawn` that of possible corruptions that are known
    facts. Memory: at most about CELLS probabilities at once, and 40 bytes for each corruption.

    Raises InputError if every corruption is a known fact.
    """
    if len(positives) > SAMPLE:
        number = estimated_number(positives, strategy, shares)
        if number is None or number > 2 * most:
            return None
    blocks: list[CorruptionBlock] = []
    number = 0
    for block in blocks_of_all(positives, strategy, shares, known):
        if block is None:
            return None
        number += int((~block.is_fact).sum())
        if number > most:
            return None
        blocks.append(block)
    if not number:
        facts = sum(len(block.triples) for block in blocks)
        raise InputError(f"all {facts:,} corruptions are known facts: use another strategy, or do not drop known facts")
    triples, source, chances, is_fact = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("triples", "source", "chances", "is_fact")
    )
    kept = ~is_fact
    totals: Floats = np.bincount(source[kept], chances[kept], len(positives)).astype(np.float64)
    used = int((totals > 0).sum())
    weights, hits = chances[kept] / totals[source[kept]] * (number / used), None
    if known is not None and seen is not None:  # what infinitely many draws would count
        is_fact[is_fact] = ~seen.contains(triples[is_fact])
        of, chance = source[is_fact], chances[is_fact]
        hits = hits_of(triples[is_fact], chance / (totals[of] + chance), of, positives, seen) / used
    redrawn = len(kept) - number
    return Corruptions(triples[kept], source[kept], len(positives) - used, 0, redrawn, weights, hits)


@dataclass(frozen=True)
class CorruptionBlock:
    """All corruptions of a few positives: triples (m, 3).

    source   (m,) the rows of the positives, ascending
    chances  (m,) the probabilities of side and entity
    is_fact  (m,) whether the corruption is a known fact, which is left out
    """

    triples: Triples
    source: Ints
    chances: Floats
    is_fact: Bools


def estimated_number(positives: Triples, strategy: Strategy, shares: Floats) -> float | None:
    """Estimate the number of all corruptions of positives (n, 3) from SAMPLE of them, known facts included.

    None if the strategy does not know its probabilities.
    """
    rows = np.unique(np.linspace(0, len(positives) - 1, SAMPLE).astype(int))
    few = _sides(positives[rows], strategy, shares)
    if few is None:
        return None
    return sum(int((chances > NEGLIGIBLE).sum()) for _, _, chances in few) * (len(positives) / len(rows))


def blocks_of_all(
    positives: Triples, strategy: Strategy, shares: Floats, known: TripleIndex | None
) -> Iterator[CorruptionBlock | None]:
    """Make all corruptions of every positive (n, 3), in blocks of positives of at most about CELLS probabilities.

    The arguments are those of `every_corruption`. Yield None if the strategy does not know its probabilities.
    """
    size = max(1, CELLS // strategy.num_entities)
    for start in range(0, len(positives), size):
        few = positives[start : start + size]
        sides = _sides(few, strategy, shares)
        if sides is None:
            yield None
            return
        corruptions, rows, chances = [], [], []
        for column, replaced, probabilities in sides:
            place, entities = np.nonzero(probabilities > NEGLIGIBLE)
            corrupted = few[replaced[place]]
            corrupted[:, column] = entities
            corruptions.append(corrupted)
            rows.append(replaced[place])
            chances.append(probabilities[place, entities])
        source = np.concatenate(rows)
        order = np.argsort(source, kind="stable")
        triples = np.concatenate(corruptions)[order]
        is_fact = np.zeros(len(triples), dtype=bool) if known is None else known.contains(triples)
        yield CorruptionBlock(triples, source[order] + start, np.concatenate(chances)[order], is_fact)


def _sides(triples: Triples, strategy: Strategy, shares: Floats) -> list[tuple[int, Ints, Floats]] | None:
    """Return for each side its column, the rows (r,) of triples that have it replaced, and the probabilities (r, E).

    They are the probabilities of side and entity together. None if the strategy does not know them.
    """
    sides, on_subject = [], shares[triples[:, 1]]
    for column, share in ((SUBJECT, on_subject), (OBJECT, 1 - on_subject)):
        replaced = np.flatnonzero(share > 0)
        chances = strategy.distribution(triples[replaced], column)
        if chances is None:
            return None
        chances *= share[replaced, None]
        sides.append((column, replaced, chances))
    return sides


@dataclass(frozen=True)
class Looked:
    """A block of corruptions: triples (m, 3), and the number of equal draws that each stands for, above 0 (m,).

    If these are all corruptions, the weights of each positive sum to 1; if they are drawn, each weight is 1.
    positives  number of positives among those of the block that have a corruption, by predicate: (R,)
    """

    triples: Triples
    weights: Weights
    positives: Ints


@dataclass(frozen=True)
class Further:
    """Where further corruptions come from.

    positives (n, 3), and their eta corruptions each that were drawn already
    looks     number of corruptions to look at: see `CorruptConfig.looks_at`
    strategy, shares, known  as in `corrupt`
    rng       random generator of the draws
    """

    positives: Triples
    eta: int
    looks: int
    strategy: Strategy
    shares: Floats
    known: TripleIndex | None
    rng: np.random.Generator

    @classmethod
    def of(cls, graph: KnowledgeGraph, config: CorruptConfig, drawn: Corruptions, model: "TrainedModel") -> Self | None:
        """Return those of valid beyond the corruptions that are drawn; None if these are enough, or all."""
        positives, looks = graph.valid.positives, config.looks_at(len(graph.valid.positives))
        if looks is None or drawn.weights is not None:
            return None
        strategy, shares = strategy_of(graph, config, model), subject_shares(graph, config.calibration_sides)
        known = _with_twins(graph, graph.known)[0] if config.calibration_filtered else None
        rng = np.random.default_rng([config.calibration_seed, 1])  # not the stream of the draws
        return cls(positives, config.eta(len(positives)), looks, strategy, shares, known, rng)

    @cached_property
    def number(self) -> float | None:
        """The number of all corruptions, by estimate, known facts included; None if it is not known."""
        return estimated_number(self.positives, self.strategy, self.shares)

    @property
    def every(self) -> bool:
        """Whether all corruptions are looked at: they are, by estimate, at most `looks`."""
        return self.number is not None and self.number <= self.looks

    @property
    def most(self) -> int:
        """The number of corruptions to look at, by estimate."""
        return round(self.number) if self.every and self.number is not None else self.looks

    def all(self) -> Iterator[Looked]:
        """Make all corruptions of each positive, with their probabilities, given that they are not known facts."""
        for block in blocks_of_all(self.positives, self.strategy, self.shares, self.known):
            assert block is not None, "a strategy that tells the number of its corruptions knows their probabilities"
            source, chances = block.source[~block.is_fact], block.chances[~block.is_fact]
            totals = np.bincount(source, chances, len(self.positives))
            used = np.bincount(self.positives[totals > 0, 1], minlength=len(self.shares))
            yield Looked(block.triples[~block.is_fact], chances / totals[source], used)

    def draws(self) -> Iterator[Looked]:
        """Draw the corruptions that are missing, in blocks of about DRAWS: the same number for each positive."""
        number = len(self.positives)
        left, size = -(-self.looks // number) - self.eta, max(1, DRAWS // number)
        for done in range(0, left, size):
            for start in range(0, number, DRAWS):
                positives = self.positives[start : start + DRAWS]
                drawn = corrupt(positives, min(size, left - done), self.strategy, self.rng, self.shares, self.known)
                none = np.zeros(len(self.shares), dtype=np.int64)
                yield Looked(drawn.triples, np.ones(len(drawn.triples)), none)


class Top:
    """The rows with the highest scores that were added: over all relations, and in each relation.

    A row of relation r is kept if its score is above limit_r = min(c, c_r). c is the score that at most half of `most`
    rows exceed. c_r is the score that at most own_r rows of the relation exceed, where the own_r share the other half.
    So the top of all scores is kept, for a map of all relations, and the top of each relation, for its own map. A row
    that is left out can never come back, because no limit falls.

    most      largest number of rows that are kept
    by_relation  (R,) numbers by which the relations share half of `most`: those of the positives

    limits    (R,) a row with a higher score is kept; -inf: all rows of the relation are kept
    seen      (R,) total weight of all rows that were added
    squares   (R,) sum of the squares of their weights
    rows      number of rows that were added
    held      largest number of rows in memory so far
    """

    def __init__(self, most: int, by_relation: Ints) -> None:
        self._most, self._half = most, most // 2
        self._own = (most - self._half) * by_relation // max(1, int(by_relation.sum()))
        self._all, self._each = -np.inf, np.full(len(by_relation), -np.inf)
        self.seen, self.squares = np.zeros(len(by_relation)), np.zeros(len(by_relation))
        self.rows, self.held = 0, 0
        self._parts: list[tuple[Triples, Scores, Weights]] = []
        self._size = 0

    @property
    def limits(self) -> Floats:
        """The highest score, by relation, that a row must exceed: (R,)."""
        limits: Floats = np.minimum(self._all, self._each)
        return limits

    def add(self, triples: Triples, scores: Scores, weights: Weights) -> None:
        """Add rows: triples (m, 3), scores (m,), and weights (m,) above 0."""
        self.seen += np.bincount(triples[:, 1], weights, len(self.seen))
        self.squares += np.bincount(triples[:, 1], weights**2, len(self.seen))
        self.rows += len(scores)
        high = scores > self.limits[triples[:, 1]]
        self._parts.append((triples[high], scores[high], weights[high]))
        self._size += int(high.sum())
        self.held = max(self.held, self._size)
        if self._size > 2 * self._most:
            self.kept()

    def kept(self) -> tuple[Triples, Scores, Weights]:
        """Leave out the rows that do not belong to the top, and return the others: at most `most`."""
        if not self._parts:
            return np.empty((0, 3), dtype=np.int64), np.empty(0), np.empty(0)
        triples, scores, weights = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        if len(scores) > self._half:
            place = len(scores) - self._half - 1
            self._all = max(self._all, float(np.partition(scores, place)[place]))
        relations = triples[:, 1]
        order = np.lexsort((scores, relations))
        ends = np.cumsum(np.bincount(relations, minlength=len(self._own)))
        sizes = np.diff(ends, prepend=0)
        full = np.flatnonzero(sizes > self._own)
        self._each[full] = np.maximum(self._each[full], scores[order[ends[full] - self._own[full] - 1]])
        high = scores > self.limits[relations]
        top = triples[high], scores[high], weights[high]
        self._parts, self._size = [top], int(high.sum())
        return top


def audit(graph: KnowledgeGraph, split: str, made: Corruptions) -> dict[str, float]:
    """Return counts and shares that describe the corruptions of a split's positives.

    every                 1 if these are all corruptions of each positive: see `every_corruption`. Then the shares below
                          are weighted, `dropped` is the number of positives without a corruption, and `redrawn` that of
                          possible corruptions that are known facts. 0 if they were drawn
    corruptions           number of corruptions that were kept
    dropped               number of corruptions that are missing, because every draw was a known fact
    redrawn               number of corruptions whose first draw was a known fact, and that were drawn again
    alone                 number of positives whose relation has no corruption: no calibrator is fitted to them
    fallbacks             number, including dropped ones, that a simpler strategy drew because there was no candidate
    true_in_train, true_in_valid, true_in_test
                          share that are facts of this split. The sum of the three shares is a lower bound of the
                          share of true corruptions. The shares are only reported: no fit and no filter uses them
    equal_to_source       share that are equal to the positive that they were made from: a value above 0 is an error
    on_subject            share that replace the subject
    outside_range         share whose new entity never occurs in training on that side of the predicate. They are easy
                          to distinguish from facts. Labelled negatives of a curated data set are rarely of this kind
    """
    positives: Split = getattr(graph, split)
    source, triples = positives.positives[made.source], made.triples
    weights = np.ones(len(triples)) if made.weights is None else made.weights
    total = max(1.0, float(weights.sum()))
    changed = triples != source
    figures = {"every": float(made.weights is not None), "corruptions": float(len(triples))}
    figures |= {"dropped": float(made.dropped), "redrawn": float(made.redrawn), "fallbacks": float(made.fallbacks)}
    figures["alone"] = float((~np.isin(positives.positives[:, 1], triples[:, 1])).sum())
    facts = {"train": graph.train.positives, "valid": graph.valid.positives, "test": graph.test.positives}
    for name, known in facts.items():
        figures[f"true_in_{name}"] = float(weights[graph.index(known).contains(triples)].sum() / total)
    outside = 0.0
    for column in (SUBJECT, OBJECT):
        seen, size = graph.train.positives, len(graph.entities)
        held = sorted_distinct(seen[:, 1] * size + seen[:, column])
        new = triples[changed[:, column]]
        outside += float(weights[changed[:, column]][~np.isin(new[:, 1] * size + new[:, column], held)].sum())
    return figures | {
        "equal_to_source": float(weights[~changed.any(axis=1)].sum() / total),
        "on_subject": float(weights[changed[:, SUBJECT]].sum() / total),
        "outside_range": outside / total,
    }


def corrupt_held_out(
    graph: KnowledgeGraph,
    eta: int,
    strategy: Strategy,
    rng: np.random.Generator,
    sides: str,
    filtered: bool,
    all_up_to: int | None = None,
) -> dict[str, Corruptions]:
    """Corrupt the positives of valid and, if it is measured with corruptions, of test: split -> corruptions.

    Test is measured without corruptions if both splits have labelled negatives, or if test has confidences.

    Calibrators are fitted to the corruptions of valid. Of these, `filtered` drops the facts of train and valid, and
    triples with a twin in train, but not the facts of test. It also counts `hits`, from which the number of hidden
    facts is estimated. Those of test serve only evaluation: facts of all splits, and such triples, are always dropped.

    all_up_to  if valid has at most so many corruptions, all of them are made, with weights: see `every_corruption`.
               None: eta corruptions of each positive are drawn. Those of test are always drawn.

    Raises InputError if `sides` is unknown.
    """
    shares, positives = subject_shares(graph, sides), graph.valid.positives
    seen = graph.index(graph.train.positives, graph.other_facts)
    known, seen, all_known = _with_twins(graph, graph.known, seen, graph.all_known)
    filters = (known, seen) if filtered else (None, None)
    every = None if all_up_to is None else every_corruption(positives, all_up_to, strategy, shares, *filters)
    corruptions = {"valid": every or corrupt(positives, eta, strategy, rng, shares, *filters)}
    if not graph.labelled and graph.test.confidences is None:
        corruptions["test"] = corrupt(graph.test.positives, eta, strategy, rng, shares, all_known)
    return corruptions


def _with_twins(graph: KnowledgeGraph, *indexes: TripleIndex) -> list[TripleIndex]:
    """Return the indexes. If the splits keep twins together, each also has the triples with a twin in train."""
    twins = Twins.of(graph).every() if graph.twins_together else None
    return [index if twins is None else graph.index(index.triples, twins) for index in indexes]


def corrupted(graph: KnowledgeGraph, config: CorruptConfig, model: "TrainedModel | None") -> dict[str, Corruptions]:
    """Corrupt the held-out positives as the settings say: `corrupt_held_out`, with the seed `calibration_seed`."""
    n, rng = len(graph.valid.positives), np.random.default_rng(config.calibration_seed)
    strategy, sides, filtered = strategy_of(graph, config, model), config.calibration_sides, config.calibration_filtered
    return corrupt_held_out(graph, config.eta(n), strategy, rng, sides, filtered, config.all_up_to(n))
