"""A weighted draw from a population: the most promising candidates in full, and a sample of the others.

The promising ones have the highest scores, or a rule of the graph proposes them. Scores alone would miss the facts that
a model cannot rank, such as those of a symmetric predicate by TransE.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.discovery import probability_order
from kgcore.answer.pairs import PairBlock, best_pairs, search_pairs
from kgcore.answer.population.population import Population, by_validation
from kgcore.answer.question import Question
from kgcore.arrays import Bools, Floats, Triples
from kgcore.data.graph import TripleIndex
from kgcore.embed.models.scorer import Scorer
from kgcore.evidence.pairs import Rules
from kgcore.workers import EachPart, OnPart, one_by_one

SUBJECTS_AT_ONCE = 2**13  # subjects of a part of a search
FEWEST_TOP, FEWEST_REST = 2_000, 500  # rows of a block
RULE = 0.1  # lowest confidence of a rule that makes a candidate promising
OF_SUBJECT = 50  # random candidates of a subject


@dataclass(frozen=True)
class DrawSize:
    """How many candidates are drawn.

    top   candidates with the highest scores, over all blocks: each of them is drawn. At most as many others are drawn
          because a rule proposes them
    rest  candidates that stand for all others
    pool  random candidates, over all blocks, from which the rest is chosen: those with high scores more often
    """

    top: int = 300_000
    rest: int = 60_000
    pool: int = 1_000_000


@dataclass(frozen=True)
class DrawnCandidates:
    """Candidates of a population.

    triples  (n, 3)
    weights  (n,) number of candidates that each one stands for, at least 1
    in_top   (n,) whether it is one of the promising candidates of its block, which stand for themselves
    lowest   predicate -> lowest of the highest scores; -inf: all candidates of the block are drawn
    rules    predicate -> lowest confidence of a rule that makes a candidate promising; inf: no rule does
    """

    triples: Triples
    weights: Floats
    in_top: Bools
    lowest: Mapping[int, float]
    rules: Mapping[int, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.triples)


def draw(
    population: Population,
    scorer: Scorer,
    size: DrawSize,
    rng: np.random.Generator,
    on_part: OnPart = lambda done: None,
    each_part: EachPart = one_by_one,
    rules: Rules | None = None,
) -> DrawnCandidates:
    """Draw candidates of each block: the promising ones, and a weighted sample of the others.

    rules      propose candidates, if there are some
    on_part    function that is called with the share of the pairs that are done, from 0 to 1
    each_part  searches the parts of a block

    A block gets a part of `size` in proportion to its validation facts. Of its N candidates, the M promising ones weigh
    1: those with the highest scores, and those with a rule_best of at least RULE, or of more if these are too many. The
    other N - M are represented by random ones: with R of them in descending order of their scores, the i-th is chosen
    with the probability pi_i, proportional to 1 / (i + 1) but at most 1, and then weighs (N - M) / (R pi_i), scaled so
    that the weights of a block sum to N (Hajek 1971).
    """
    shares = by_validation(population, 1.0)
    total, done = max(int(population.sizes.sum()), 1), 0
    parts = []
    for block, candidates, share in zip(population.blocks, population.sizes.tolist(), shares.tolist(), strict=True):
        parts.append(_draw_block(population, block, candidates, scorer, _scaled(size, share), rng, each_part, rules))
        done += candidates
        on_part(done / total)
    return _joined(parts)


def random_candidates(population: Population, count: int, rng: np.random.Generator) -> Triples:
    """Draw about `count` different candidates (n, 3) at random, of each block in proportion to its validation facts.

    They are about OF_SUBJECT of each of some random subjects, because a model may compute something for each subject. A
    block with few pairs, or few missing facts, has fewer than FEWEST_REST.
    """
    drawn = [np.zeros((0, 3), dtype=np.int64)]
    for block, number in zip(population.blocks, by_validation(population, count).tolist(), strict=True):
        wanted = max(FEWEST_REST, round(number))
        some = replace(block, subjects=rng.permutation(block.subjects)[: max(wanted // OF_SUBJECT, 1)])
        drawn.append(_random_pairs(some, population.left_out(block.predicate), wanted, rng))
    return np.concatenate(drawn)


def _scaled(size: DrawSize, share: float) -> DrawSize:
    return DrawSize(
        top=max(FEWEST_TOP, round(size.top * share)),
        rest=max(FEWEST_REST, round(size.rest * share)),
        pool=max(20 * FEWEST_REST, round(size.pool * share)),
    )


def _draw_block(
    population: Population,
    block: PairBlock,
    candidates: int,
    scorer: Scorer,
    size: DrawSize,
    rng: np.random.Generator,
    each_part: EachPart,
    rules: Rules | None,
) -> DrawnCandidates:
    number = size.top if candidates > size.top + size.rest else candidates
    top = highest(population, block, scorer, number, each_part)
    lowest = float(scorer.score(top[-1:])[0]) if len(top) < candidates and len(top) else -np.inf
    confidence = np.inf
    if rules is not None and len(top) < candidates:
        proposed, confidence = _proposed(population, block, rules, size.top)
        top = np.concatenate([top, proposed[~population.graph.index(top).contains(proposed)]])
    limits = {block.predicate: lowest}, {block.predicate: confidence}
    first = DrawnCandidates(top, np.ones(len(top)), np.ones(len(top), dtype=bool), *limits)
    left = candidates - len(top)
    if not left:
        return first
    pool = _random(population, block, top, size.pool, rng)
    pool = pool[np.argsort(-scorer.score(pool), kind="stable")]
    chances = _chances(len(pool), size.rest)
    chosen = rng.random(len(pool)) < chances
    weights = 1 / chances[chosen]
    rest = DrawnCandidates(pool[chosen], weights * (left / weights.sum()), np.zeros(int(chosen.sum()), dtype=bool), {})
    return _joined([first, rest])


def _proposed(population: Population, block: PairBlock, rules: Rules, most: int) -> tuple[Triples, float]:
    """Return at most `most` candidates (n, 3) that rules propose, all with at least a confidence; and this confidence.

    It is as low as `most` allows, but at least RULE; inf if there are more candidates with the highest one.
    """
    proposed = rules.proposed(block.predicate, RULE)
    if (listed := population.listed(block)) is not None:
        proposed = proposed[population.graph.index(listed).contains(proposed)]
    else:
        proposed = proposed[block.holds(proposed) & ~population.left_out(block.predicate).contains(proposed)]
    confidences = rules.values(proposed)[:, 0].astype(np.float32)  # as the feature is stored
    levels, counts = np.unique(-confidences, return_counts=True)
    fits = np.flatnonzero(counts.cumsum() <= most)
    least = float(-levels[fits[-1]]) if len(fits) else np.inf
    return proposed[confidences >= least], least


def highest(population: Population, block: PairBlock, scorer: Scorer, top: int, each_part: EachPart) -> Triples:
    """Return the `top` candidates (M, 3) of a block with the highest scores, from the highest down."""
    if not top:
        return np.zeros((0, 3), dtype=np.int64)
    if (listed := population.listed(block)) is not None:
        return listed[np.argsort(-scorer.score(listed), kind="stable")[:top]]
    search = population.search(block, top)
    parts = np.array_split(block.subjects, ceil(len(block.subjects) / SUBJECTS_AT_ONCE))
    pairs = [found for _, found in each_part(search_pairs, (scorer, search), parts)]
    return best_pairs(scorer, search, np.concatenate(pairs))


def ranked_by(
    model: CalibratedModel, population: Population, question: Question, top: int, each_part: EachPart = one_by_one
) -> Triples:
    """Return the `top` candidates (M, 3) that a question asks about with the highest probabilities by a model.

    Equal probabilities are in the order of the scores. The model need not be calibrated to the population: then this is
    an order, and its probabilities are about other triples.
    """
    blocks = population.blocks_of(question)
    lists = [highest(population, block, model.trained, top, each_part) for block in blocks]
    triples = np.concatenate([np.zeros((0, 3), dtype=np.int64), *lists])
    return triples[probability_order(model, triples)[:top]]


def _random(population: Population, block: PairBlock, top: Triples, count: int, rng: np.random.Generator) -> Triples:
    """Return about `count` different random candidates of a block that are not in `top`, at least one."""
    if (listed := population.listed(block)) is not None:
        return rng.permutation(listed[~population.graph.index(top).contains(listed)])[:count]
    index = population.graph.index(population.left_out(block.predicate).triples, top)
    kept = np.zeros((0, 3), dtype=np.int64)
    while not len(kept):
        kept = _random_pairs(block, index, count, rng)
    return kept


def _random_pairs(block: PairBlock, left_out: TripleIndex, count: int, rng: np.random.Generator) -> Triples:
    """Return `count` random pairs of a block (n, 3), each once, but for those that are left out."""
    subjects, objects = rng.choice(block.subjects, count), rng.choice(block.objects, count)
    pairs = np.unique(np.stack([subjects, np.full(count, block.predicate), objects], axis=1), axis=0)
    return pairs[~left_out.contains(pairs)]


def _chances(pool: int, rest: int) -> Floats:
    """Return with which probability (R,) each row of a pool is chosen, so that about `rest` rows are chosen."""
    if rest >= pool:
        return np.ones(pool)
    places = np.arange(pool) + 1.0
    low, high = 0.0, float(pool)
    for _ in range(60):  # bisection for the factor of 1 / place
        factor = (low + high) / 2
        low, high = (factor, high) if np.minimum(1.0, factor / places).sum() < rest else (low, factor)
    chances: Floats = np.minimum(1.0, high / places)
    return chances


def _joined(parts: list[DrawnCandidates]) -> DrawnCandidates:
    none = DrawnCandidates(np.zeros((0, 3), dtype=np.int64), np.zeros(0), np.zeros(0, dtype=bool), {})
    every = [none, *parts]
    return DrawnCandidates(
        np.concatenate([part.triples for part in every]),
        np.concatenate([part.weights for part in every]),
        np.concatenate([part.in_top for part in every]),
        {predicate: score for part in every for predicate, score in part.lowest.items()},
        {predicate: confidence for part in every for predicate, confidence in part.rules.items()},
    )
