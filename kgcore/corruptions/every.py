"""All corruptions of each positive, with their probabilities as weights, instead of a sample of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Triples
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
