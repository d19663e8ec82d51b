"""How many candidates of a population are true: from the completeness of the graph, or from a stated base rate."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgcore.arrays import Floats
from kgcore.config.calibrate import rate_text, read_base_rate
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph
from kgcore.population.population import Population

ENDS = 3  # the value of a share, its lower and its upper end
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
        values, low, high = (own.sum(keepdims=True) for own in (self.values, self.low, self.high))
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


@dataclass(frozen=True)
class Completeness:
    """The share of the true facts that the graph knows.

    shares        (R, ENDS) of each predicate: value, lower end, upper end, in (0, 1); NaN: not stated
    stated        the text that the user gave
    by_predicate  whether each predicate has a share of its own
    """

    shares: Floats
    stated: str
    by_predicate: bool

    def of(self, population: Population, asked: int | None = None) -> UnknownFacts:
        """Return the number of true candidates of each block: K (1 - c) / c for K known facts (`Population.known`).

        If one completeness is stated for all predicates, the sum over the blocks has this value, and is divided among
        them as `by_validation` says.

        asked  the predicate that is asked about: the blocks of others, which help it, may lack a completeness

        Raises InputError if a block has no completeness, if no block has a known fact, and if there are more unknown
        facts than candidates.
        """
        names, predicates = population.graph.predicates, [block.predicate for block in population.blocks]
        shares = self.shares[predicates]
        if asked is not None:
            shares = np.where(np.isnan(shares), self.shares[asked], shares)
        if missing := [names[p] for p, share in zip(predicates, shares, strict=True) if np.isnan(share).any()]:
            raise InputError(f"{self.stated} has no completeness of {', '.join(missing[:5])}: add a line for each")
        if not population.known.any():
            raise InputError(
                "validation has no fact among these pairs, so completeness says nothing about them: state --base-rate"
            )
        counts = [population.known * (1 - share) / share for share in (shares[:, 0], shares[:, 2], shares[:, 1])]
        if not self.by_predicate:
            counts = [by_validation(population, float(count.sum())) for count in counts]
        value, low, high = (_within(population, count, f"completeness {self.stated}") for count in counts)
        return UnknownFacts(value, low, high, f"completeness {self.stated}", self.by_predicate)


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
    base_rate     share of true ones among the candidates, as `read_base_rate` takes it; None or '': not stated
    asked         the predicate that is asked about; None: all. What is stated is about its candidates

    Raises InputError if both are stated, and as `read_completeness`, `Completeness.of` and `of_base_rate` do.
    """
    rate, limits = read_base_rate(base_rate)
    if completeness and rate is not None:
        raise InputError(
            f"completeness is {completeness} and base_rate is {base_rate}: each of them says how many candidates are "
            "true, so state one of them"
        )
    if completeness:
        return read_completeness(completeness, population.graph).of(population, asked)
    return None if rate is None else of_base_rate(population, rate, asked, limits)


def of_base_rate(
    population: Population, base_rate: float, asked: int | None = None, limits: tuple[float, float] | None = None
) -> UnknownFacts:
    """Return the number of true candidates of each block if a share `base_rate` in (0, 1) of all candidates is true.

    asked   the predicate of whose candidates this share is true; None: of all
    limits  the ends of an interval of the base rate; None: it has no interval

    The number is divided among the blocks as `by_validation` says; that of a file, in proportion to its rows.
    """
    most = np.maximum(population.sizes, LEAST)
    if population.rows is None:
        parts = by_validation(population, 1.0)
        own = np.array([asked in (None, block.predicate) for block in population.blocks])
        each = float(population.sizes[own].sum()) / float(parts[own].sum()) * parts
    else:
        each = population.sizes.astype(np.float64)
    value, low, high = (np.clip(rate * each, LEAST, most) for rate in (base_rate, *(limits or (base_rate, base_rate))))
    return UnknownFacts(value, low, high, f"base rate {rate_text(base_rate, limits)}", by_predicate=False)


def read_completeness(text: str, graph: KnowledgeGraph) -> Completeness:
    """Read the completeness of a graph: a share, an interval LOW:HIGH, or a file with a line for each predicate.

    text  `0.8`, `0.7:0.9`, or the path of a text file whose lines have a predicate, a tab, and a share or an interval

    The value of an interval is its middle. Raises InputError for a share outside (0, 1), for a file that cannot be
    read, and for a line that is wrong; the message has the file and the line.
    """
    if (share := share_of(text)) is not None:
        return Completeness(np.tile(share, (len(graph.predicates), 1)), text, by_predicate=False)
    path = Path(text)
    if not path.is_file():
        raise InputError(
            f"completeness is {text!r}: it must be a share above 0 and below 1, an interval LOW:HIGH, or a file with a "
            "line for each predicate"
        )
    shares = np.full((len(graph.predicates), ENDS), np.nan)
    places = {name: place for place, name in enumerate(graph.predicates)}
    for number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        name, tab, value = line.rpartition("\t")
        share = share_of(value.strip())
        if not tab or share is None:
            raise InputError(
                f"{path}, line {number}: it must be a predicate, a tab, and a share above 0 and below 1 or LOW:HIGH"
            )
        if name not in places:
            raise InputError(f"{path}, line {number}: the graph {graph.name} has no predicate {name!r}")
        shares[places[name]] = share
    return Completeness(shares, path.name, by_predicate=True)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save the file as UTF-8 text") from error


def share_of(text: str) -> tuple[float, float, float] | None:
    """Return value, lower and upper end of a share; None if the text is no share.

    Raises InputError for numbers out of range.
    """
    try:
        ends = [float(part) for part in text.split(":")]
    except ValueError:
        return None
    if len(ends) > 2 or not all(0 < end < 1 for end in ends) or ends != sorted(ends):
        raise InputError(f"completeness is {text!r}: it must be above 0 and below 1, or LOW:HIGH, such as 0.7:0.9")
    return sum(ends) / len(ends), ends[0], ends[-1]
