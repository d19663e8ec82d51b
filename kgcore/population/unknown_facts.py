"""How many candidates of a population are true: from the completeness of the graph, or from a stated base rate."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats
from kgcore.base_rate import BaseRate
from kgcore.completeness import Completeness, read_completeness
from kgcore.errors import InputError
from kgcore.population.population import Population

LEAST = 1e-9  # true candidates of a block: one without any would have no map


@dataclass(frozen=True)
class UnknownFacts:
    """The expected number of true candidates of each block of a population, with an interval.

    values        (b,) above 0
    low, high     (b,) the ends of the interval
    stated        what the user has stated, such as `completeness 0.8` or `base rate 0.001`
    by_predicate  whether each block has a number of its own. If not, their sum is divided by the validation facts
    """

    values: Floats
    low: Floats
    high: Floats
    stated: str
    by_predicate: bool

    @property
    def total(self) -> float:
        """The expected number of true candidates."""
        return float(self.values.sum())

    @property
    def together(self) -> "UnknownFacts":
        """The number of all blocks, as if they were one."""
        values, low, high = (numbers.sum(keepdims=True) for numbers in (self.values, self.low, self.high))
        return UnknownFacts(values, low, high, self.stated, by_predicate=False)

    def drawn(self, facts: Floats, rng: np.random.Generator) -> Floats:
        """Return numbers (b,) for a bootstrap replicate: from the interval, and by the drawn validation facts (b,).

        The facts of a block give the expected share of the true candidates that are in it. The true ones themselves are
        a further draw from these shares.
        """
        values = self.low + rng.random() * (self.high - self.low)
        if self.by_predicate:
            return values
        total = float(values.sum())
        size = max(1, round(total))
        numbers = rng.multinomial(size, facts / facts.sum()).astype(np.float64)
        divided: Floats = np.maximum(numbers * (total / size), LEAST)
        return divided


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
    return UnknownFacts(value, low, high, stated, completeness.by_predicate)


def _within(population: Population, counts: Floats, stated: str) -> Floats:
    """Return numbers of true candidates (b,) that are at most the numbers of candidates.

    Raises InputError if there are more true candidates than candidates.
    """
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
    counts = np.bincount(population.positives[:, 1], minlength=len(population.graph.predicates))
    of_block = counts[[block.predicate for block in population.blocks]].astype(np.float64)
    divided: Floats = total * of_block / max(float(of_block.sum()), 1.0)
    return divided


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
