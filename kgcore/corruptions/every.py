"""All corruptions of each positive, with their probabilities as weights, instead of a sample of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Ints, Triples
from kgcore.corruptions.base import OBJECT, SUBJECT, Corruptions, Strategy, hits_of
from kgcore.errors import InputError
from kgcore.graph import TripleIndex

CELLS = 2**21  # probabilities of a block of positives and one side, 16 MiB
SAMPLE = 16  # positives that tell first how many corruptions there are
NEGLIGIBLE = 1e-9  # less probable corruptions are left out; the best of 20 candidates is hardly ever the worst entity


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
    parts: list[CorruptionBlock] = []
    found, facts = 0, 0
    for block in blocks_of_all(positives, strategy, shares, known):
        if block is None:
            return None
        found, facts = found + len(block.triples), facts + len(block.facts.triples)
        if found > most:
            return None
        parts.append(block)
    if not found:
        raise InputError(f"all {facts:,} corruptions are known facts: use another strategy, or do not drop known facts")
    triples, source, chances = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("triples", "source", "chances")
    )
    totals: Floats = np.bincount(source, chances, len(positives)).astype(np.float64)
    used = int((totals > 0).sum())
    weights = chances / totals[source] * (found / used)
    hits = None if known is None or seen is None else _hits(parts, totals, positives, seen)
    return Corruptions(triples, source, len(positives) - used, redrawn=facts, weights=weights, hits=hits)


def _hits(blocks: list["CorruptionBlock"], totals: Floats, positives: Triples, seen: TripleIndex) -> Floats:
    """Return the hits (n, 2) of `Corruptions`: what infinitely many draws would count.

    totals  (n,) the probability that a draw for each positive is no known fact
    """
    facts, source, chances = (
        np.concatenate([getattr(block.facts, name) for block in blocks]) for name in ("triples", "source", "chances")
    )
    outside = ~seen.contains(facts)
    facts, source, chances = facts[outside], source[outside], chances[outside]
    hits = hits_of(facts, chances / (totals[source] + chances), source, positives, seen)
    return hits / float((totals > 0).sum())


@dataclass(frozen=True)
class ChosenCorruptions:
    """Corruptions of positives: triples (m, 3), the rows of the positives (m,), ascending, and the probabilities (m,).

    chances  the probabilities of side and entity
    """

    triples: Triples
    source: Ints
    chances: Floats


@dataclass(frozen=True)
class CorruptionBlock(ChosenCorruptions):
    """All corruptions of a few positives. `facts` are those that were left out, because they are known facts."""

    facts: ChosenCorruptions


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
        made = _block(positives[start : start + size], strategy, shares)
        if made is None:
            yield None
            return
        triples, source, chances = made
        source = source + start
        new = np.ones(len(triples), dtype=bool) if known is None else ~known.contains(triples)
        facts = ChosenCorruptions(triples[~new], source[~new], chances[~new])
        yield CorruptionBlock(triples[new], source[new], chances[new], facts)


def _block(triples: Triples, strategy: Strategy, shares: Floats) -> tuple[Triples, Ints, Floats] | None:
    """Return the corruptions (m, 3) of a few positives, their rows and their probabilities (m,). Rows ascend.

    None if the strategy does not know its probabilities.
    """
    sides = _sides(triples, strategy, shares)
    if sides is None:
        return None
    made, rows, chances = [], [], []
    for column, own, found in sides:
        place, entities = np.nonzero(found > NEGLIGIBLE)
        corrupted = triples[own[place]]
        corrupted[:, column] = entities
        made.append(corrupted)
        rows.append(own[place])
        chances.append(found[place, entities])
    source = np.concatenate(rows)
    order = np.argsort(source, kind="stable")
    return np.concatenate(made)[order], source[order], np.concatenate(chances)[order]


def _sides(triples: Triples, strategy: Strategy, shares: Floats) -> list[tuple[int, Ints, Floats]] | None:
    """Return for each side its column, the rows (r,) of triples that have it replaced, and the probabilities (r, E).

    They are the probabilities of side and entity together. None if the strategy does not know them.
    """
    sides, on_subject = [], shares[triples[:, 1]]
    for column, share in ((SUBJECT, on_subject), (OBJECT, 1 - on_subject)):
        own = np.flatnonzero(share > 0)
        found = strategy.distribution(triples[own], column)
        if found is None:
            return None
        found *= share[own, None]
        sides.append((column, own, found))
    return sides
