"""The population of a question: the unknown triples of some predicates or of a file, and how many of them are true."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kgcore.answer.domains import Domains
from kgcore.answer.pairs import PairBlock, PairSearch
from kgcore.answer.question import Question
from kgcore.arrays import Floats, Ints, Triples
from kgcore.base_rate import BaseRate
from kgcore.data.completeness import Completeness, read_completeness
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.errors import InputError

NOTHING_STATED = (
    "no probabilities: nothing says how many of the {candidates} are true. State which share of the true facts the "
    "graph knows (--completeness 0.8), or which share of the candidates is true (--base-rate). The order, --fdr and "
    "--coverage need neither"
)
FEWEST_FACTS = 20  # validation facts of a population to which probabilities can be calibrated
FEWEST_OF_PREDICATE = 200  # validation facts from which a predicate needs no others beside it
NEARLY_ALL = 0.7  # share of the validation facts of a predicate
FEWEST_ROWS = 50  # unknown triples of a file to which probabilities can be calibrated
LEAST = 1e-9  # true candidates of a block: one without any would have no map


@dataclass(frozen=True)
class Population:
    """The unknown triples of some blocks, one for each predicate, in ascending order of the predicates.

    The known facts of all splits are left out, and so are triples that are labelled false, and pairs of an entity with
    itself if no training fact of the predicate has such a pair.

    domains  the graph, and which triples of a predicate are left out
    blocks   the pairs
    rows     (n, 3) the distinct triples of a file, known ones among them: only these are candidates. None: all pairs
    """

    domains: Domains
    blocks: tuple[PairBlock, ...]
    rows: Triples | None = None

    def __post_init__(self) -> None:
        predicates = [block.predicate for block in self.blocks]
        if predicates != sorted(set(predicates)):
            raise ValueError(f"the predicates of the blocks are {predicates}: they must ascend")

    @classmethod
    def of_predicates(cls, domains: Domains, predicates: Sequence[int]) -> "Population":
        """Return all missing facts of some predicates: the pairs of entities that can take the two places."""
        blocks = [PairBlock(p, domains.of(p, SUBJECT), domains.of(p, OBJECT)) for p in sorted(predicates)]
        return cls(domains, tuple(blocks))

    @classmethod
    def asked(
        cls, domains: Domains, predicate: int | None, at_least: int, block: PairBlock | None = None
    ) -> "Population | None":
        """Return the missing facts to which a question is calibrated; None: they or their validation facts are few.

        predicate  the predicate that is asked about; None: all
        at_least   fewest validation facts of a predicate
        block      the pairs of the predicate that are asked about; None: those of the entities that fit it

        They are the asked pairs if validation has FEWEST_OF_PREDICATE facts among them. If it has as many of the
        predicate, they are the pairs of the entities that are asked about or fit the predicate. Otherwise, the missing
        facts of all other predicates with `at_least` facts are added.
        """
        counts = np.bincount(domains.graph.valid.positives[:, 1], minlength=len(domains.graph.predicates))
        enough = np.flatnonzero(counts >= max(1, at_least)).tolist()
        if predicate is None:
            population = cls.of_predicates(domains, enough)
        elif predicate not in enough:
            return None
        else:
            about = cls.of_predicates(domains, [predicate]) if block is None else cls(domains, (block,))
            if block is not None and len(about.positives) < FEWEST_OF_PREDICATE:
                [fitting] = cls.of_predicates(domains, [predicate]).blocks
                about = cls(domains, (fitting.joined(block),))
            others = cls.of_predicates(domains, [p for p in enough if p != predicate]).blocks
            few = counts[predicate] < FEWEST_OF_PREDICATE
            blocks = sorted((*about.blocks, *(others if few else ())), key=lambda one: one.predicate)
            population = cls(domains, tuple(blocks))
        counts = np.bincount(population.positives[:, 1], minlength=len(domains.graph.predicates))
        kept = [
            block
            for block, size in zip(population.blocks, population.sizes.tolist(), strict=True)
            if size and counts[block.predicate] >= max(1, at_least)
        ]
        population = cls(domains, tuple(kept))
        if predicate not in (None, *(block.predicate for block in kept)):
            return None
        enough_rows = min(len(population.positives), int(population.sizes.sum())) >= FEWEST_FACTS
        return population if enough_rows else None

    @classmethod
    def of_rows(cls, domains: Domains, rows: Triples, at_least: int) -> "Population | None":
        """Return the unknown triples of a file; None: they or the validation facts of their predicates are few.

        rows      (n, 3) triples of the file
        at_least  fewest validation facts of a predicate. Triples of a predicate with fewer are left out
        """
        counts = np.bincount(domains.graph.valid.positives[:, 1])
        rows = rows[np.isin(rows[:, 1], np.flatnonzero(counts >= max(1, at_least)))]
        rows = domains.graph.index(rows).triples
        blocks = []
        for predicate in np.unique(unstored(domains.graph, rows)[:, 1]).tolist():
            triples = rows[rows[:, 1] == predicate]
            blocks.append(PairBlock(predicate, np.unique(triples[:, SUBJECT]), np.unique(triples[:, OBJECT])))
        population = cls(domains, tuple(blocks), rows)
        is_large = population.sizes.sum() >= FEWEST_ROWS and len(population.positives) >= FEWEST_FACTS
        return population if is_large else None

    def listed(self, block: PairBlock) -> Triples | None:
        """Return the candidates (n, 3) of a block that a file lists, in ascending order; None: no file lists them."""
        if self._unstored is None:
            return None
        listed: Triples = self._unstored[self._unstored[:, 1] == block.predicate]
        return listed

    @cached_property
    def _unstored(self) -> Triples | None:
        return None if self.rows is None else unstored(self.graph, self.rows)

    @property
    def graph(self) -> KnowledgeGraph:
        """The graph."""
        return self.domains.graph

    def blocks_of(self, question: Question) -> tuple[PairBlock, ...]:
        """Return the parts of the population that a question asks about.

        A given entity is a candidate for every predicate that the question names, otherwise if it fits the predicate.
        """
        blocks = []
        for block in self.blocks:
            if question.predicate not in (None, block.predicate):
                continue
            sides = []
            for fitting, given in ((block.subjects, question.subject), (block.objects, question.object)):
                asked = fitting if given is None else np.array([given])
                sides.append(asked if question.predicate is not None else asked[np.isin(asked, fitting)])
            is_whole = question.subject is None and question.object is None
            blocks.append(block if is_whole else PairBlock(block.predicate, sides[0], sides[1]))
        return tuple(block for block in blocks if len(block.subjects) and len(block.objects))

    def search(self, block: PairBlock, top: int) -> PairSearch:
        """Return the search for the `top` candidates of a block with the highest scores."""
        left_out = self.left_out(block.predicate)
        return PairSearch(block.subjects, block.objects, block.predicate, top=top, leave_out=left_out)

    def left_out(self, predicate: int) -> TripleIndex:
        """Return the triples of a predicate that are no candidates: of `Domains.left_out`, and labelled false ones."""
        splits = (self.graph.train, self.graph.valid, self.graph.test)
        false = np.concatenate([split.negatives for split in splits])
        return self.graph.index(self.domains.left_out(predicate).triples, false[false[:, 1] == predicate])

    @cached_property
    def sizes(self) -> Ints:
        """The number of candidates of each block."""
        sizes = []
        for block in self.blocks:
            if (listed := self.listed(block)) is not None:
                sizes.append(len(listed))
                continue
            left_out = self.left_out(block.predicate).triples
            sizes.append(len(block.subjects) * len(block.objects) - int(block.holds(left_out).sum()))
        return np.array(sizes, dtype=np.int64)

    @cached_property
    def known(self) -> Floats:
        """The number of known facts, of all splits, that stand for the unknown facts among the pairs of each block.

        It is the number of the predicate's known facts times the share of its validation facts that are in the block. A
        training fact says nothing about this share: the entities that fit a predicate are chosen by training facts.
        """
        every = self.graph.all_known.triples, self._validation, self._inside
        known, valid, inside = map(self.counts, every)
        numbers: Floats = known * inside / np.maximum(valid, 1)
        return numbers

    @cached_property
    def _validation(self) -> Triples:
        """The validation facts (n, 3) that are no training facts, each once."""
        facts = np.unique(self.graph.valid.positives, axis=0)
        return facts[~self.graph.index(self.graph.train.positives).contains(facts)]

    @cached_property
    def _inside(self) -> Triples:
        """The validation facts (n, 3) among the pairs of the blocks, or among the triples of the file."""
        facts = self._validation
        if self.rows is not None:
            return facts[self.graph.index(self.rows).contains(facts)]
        return np.concatenate([np.zeros((0, 3), dtype=np.int64), *(facts[b.holds(facts)] for b in self.blocks)])

    @cached_property
    def positives(self) -> Triples:
        """The validation facts (n, 3) that stand for the true candidates, each once, grouped by block.

        They are those among the pairs of the blocks. For a file, the first of these sets that has FEWEST_OF_PREDICATE
        facts of each predicate, or NEARLY_ALL of them: the facts in the file; those whose subject and object the file
        has with the predicate; all. The set is the same for all predicates: a predicate with a small part of its facts,
        beside all facts of the others, would seem to have few true candidates.
        """
        if self.rows is None:
            return self._inside
        near = replace(self, rows=None)._inside
        *sets, every = (self._of_blocks(facts) for facts in (self._inside, near, self._validation))
        enough = FEWEST_OF_PREDICATE, NEARLY_ALL * self.counts(every)
        return next((facts for facts in sets if any((self.counts(facts) >= least).all() for least in enough)), every)

    def _of_blocks(self, facts: Triples) -> Triples:
        """Return the facts (n, 3) with a predicate of the blocks, grouped by block."""
        facts = facts[np.isin(facts[:, 1], [block.predicate for block in self.blocks])]
        grouped: Triples = facts[np.argsort(facts[:, 1], kind="stable")]
        return grouped

    def counts(self, facts: Triples) -> Ints:
        """Return the number of facts (b,) of each block's predicate."""
        counts: Ints = np.bincount(facts[:, 1], minlength=len(self.graph.predicates))
        return counts[[block.predicate for block in self.blocks]]


def too_few(graph: KnowledgeGraph, predicate: int | None, at_least: int) -> str:
    """Return the sentence that says why `Population.asked` returns None."""
    facts = graph.valid.positives
    if predicate is not None:
        of, count = f" of {graph.predicates[predicate]}", int((facts[:, 1] == predicate).sum())
        if count < max(1, at_least):
            return f"no probabilities: validation has {count} facts{of}, and at least {max(1, at_least)} are needed"
    return (
        f"no probabilities: at least {FEWEST_FACTS} candidates, and as many validation facts among them, are needed, "
        f"of predicates with {max(1, at_least)} validation facts or more"
    )


def unstored(graph: KnowledgeGraph, triples: Triples) -> Triples:
    """Return the triples (n, 3) whose truth the graph does not know: neither facts nor labelled false in a split."""
    return triples[~(graph.all_known.contains(triples) | graph.labelled_false.contains(triples))]


@dataclass(frozen=True)
class UnknownFacts:
    """The expected number of true candidates of each block of a population, with an interval.

    values        (b,) above 0
    low, high     (b,) the ends of the interval
    stated        what the user has stated, such as `completeness 0.8` or `base rate 0.001`
    by_predicate  whether each block has a number of its own. If not, their sum is divided by the validation facts
    everywhere    the expected number of unknown true facts of the predicates that are asked about, candidates or not,
                  if a completeness is stated; None: a base rate is, which does not say it
    contradicted  positions of blocks whose stated number is more than their candidates allow: see `at_most`
    spreads       (b,) standard deviations of the logarithms of numbers that the evidence shows; None: it shows none
    """

    values: Floats
    low: Floats
    high: Floats
    stated: str
    by_predicate: bool
    everywhere: float | None = None
    contradicted: tuple[int, ...] = ()
    spreads: Floats | None = None

    def at_most(self, most: Floats, limits: Floats) -> "UnknownFacts":
        """Return the numbers, no higher than limits (b,). A number whose interval is above its limit is contradicted.

        Numbers from none to `most` (b,) take its place. Their density rises with the square of the number, so three
        quarters of `most` are expected.
        """
        contradicted, high = self.low > limits, np.minimum(self.high, limits)
        values = np.where(high < self.high, np.minimum(self.values, (self.low + high) / 2), self.values)
        ends = (0.75 * most, np.zeros(len(most)), most), (values, self.low, high)
        values, low, high = (
            np.where(contradicted, np.maximum(own, LEAST), stated) for own, stated in zip(*ends, strict=True)
        )
        positions = tuple(np.flatnonzero(contradicted).tolist())
        return replace(self, values=values, low=low, high=high, contradicted=positions)

    @property
    def total(self) -> float:
        """The expected number of true candidates."""
        return float(self.values.sum())

    def grouped(self, groups: Ints) -> "UnknownFacts":
        """Return the number of each group of blocks. groups: (b,) the group of each block, from 0."""
        values, low, high = (np.bincount(groups, own).astype(float) for own in (self.values, self.low, self.high))
        return UnknownFacts(values, low, high, self.stated, by_predicate=False)

    def drawn(self, facts: Floats, rng: np.random.Generator) -> Floats:
        """Return numbers (b,) for a bootstrap replicate: from the interval, and by the drawn validation facts (b,).

        The facts of a block give the expected share of the true candidates that are in it. The true ones themselves are
        a further draw from these shares. With `spreads`, each number is drawn by itself, and their sum is kept.
        """
        values: Floats = self.low + rng.random() * (self.high - self.low)
        if self.spreads is not None:
            apart: Floats = values * np.exp(self.spreads * rng.standard_normal(len(values)))
            return apart * float(values.sum() / apart.sum())
        own = list(self.contradicted)
        if own:
            values[own] = np.maximum(self.high[own] * np.cbrt(rng.random()), LEAST)
        others = np.setdiff1d(np.arange(len(values)), own)
        if self.by_predicate or not facts[others].any():
            return values
        total = float(values[others].sum())
        size = max(1, round(total))
        numbers = rng.multinomial(size, facts[others] / facts[others].sum()).astype(np.float64)
        values[others] = np.maximum(numbers * (total / size), LEAST)
        return values


def of_completeness(population: Population, completeness: Completeness, asked: int | None = None) -> UnknownFacts:
    """Return the number of true candidates of each block: K (1 - c) / c for K known facts (`Population.known`).

    If one completeness is stated for all predicates, the sum over the blocks has this value, and is divided among them
    as `by_validation` says.

    asked  the predicate that is asked about: the blocks of others, which help it, may lack a completeness

    Raises InputError if a block has no completeness, if no block has a known fact, and if there are more unknown facts
    than candidates.
    """
    missing = completeness.missing([block.predicate for block in population.blocks], asked)
    if not population.known.any():
        raise InputError(
            "validation has no fact among these pairs, so completeness says nothing about them: state --base-rate"
        )
    counts = list(missing * population.known)
    if not completeness.by_predicate:
        counts = [by_validation(population, float(count.sum())) for count in counts]
    stated = f"completeness {completeness.stated}"
    value, low, high = (_within(population, count, stated) for count in counts)
    return UnknownFacts(value, low, high, stated, completeness.by_predicate, completeness.everywhere(asked))


def _within(population: Population, counts: Floats, stated: str) -> Floats:
    """Return numbers of true candidates (b,) that are at most the numbers of candidates. Raises InputError for more."""
    sizes = population.sizes
    if counts.sum() > sizes.sum():
        raise InputError(
            f"{stated} means {counts.sum():,.0f} unknown true facts, but there are {sizes.sum():,} candidates: state "
            "another one"
        )
    return np.clip(counts, LEAST, np.maximum(sizes, LEAST))


def by_validation(population: Population, total: float) -> Floats:
    """Divide a number of true candidates among the blocks: (b,), in proportion to their validation facts.

    The validation facts are a sample of the facts that training lacks, as the unknown facts are. The known facts of
    some predicates are not: a benchmark may leave inverse facts out of validation, but not out of training.
    """
    counts = population.counts(population.positives).astype(np.float64)
    return total * counts / max(float(counts.sum()), 1.0)


def stated_facts(
    population: Population, completeness: str, base_rate: str | float | None, asked: int | None = None
) -> UnknownFacts | None:
    """Return the number of true candidates that the user states; None: the user has stated nothing.

    completeness  as `read_completeness` takes it; '': not stated
    base_rate     share of true ones among the candidates, as `BaseRate.read` takes it; None or '': not stated
    asked         the predicate that is asked about; None: all. What is stated is about its candidates

    Raises InputError if both are stated, and as `read_completeness`, `of_completeness` and `of_base_rate` do.
    """
    rate = BaseRate.read(base_rate)
    if completeness and rate is not None:
        raise InputError(
            f"completeness is {completeness} and base_rate is {base_rate}: each of them says how many candidates are "
            "true, so state one of them"
        )
    if completeness:
        return of_completeness(population, read_completeness(completeness, population.graph), asked)
    return None if rate is None else of_base_rate(population, rate, asked)


def of_base_rate(population: Population, base_rate: BaseRate, asked: int | None = None) -> UnknownFacts:
    """Return the number of true candidates of each block if a share `base_rate` of all candidates is true.

    asked  the predicate of whose candidates this share is true; None: of all

    The number is divided among the blocks as `by_validation` says; that of a file, in proportion to its rows.
    """
    most = np.maximum(population.sizes, LEAST)
    if population.rows is None:
        parts = by_validation(population, 1.0)
        is_asked = np.array([asked in (None, block.predicate) for block in population.blocks])
        each = float(population.sizes[is_asked].sum()) / float(parts[is_asked].sum()) * parts
    else:
        each = population.sizes.astype(np.float64)
    rates = (base_rate.value, *(base_rate.limits or (base_rate.value, base_rate.value)))
    value, low, high = (np.clip(rate * each, LEAST, most) for rate in rates)
    return UnknownFacts(value, low, high, f"base rate {base_rate.figures}", by_predicate=False)
