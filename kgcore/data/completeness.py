"""The completeness of a graph: the share of the true facts that it knows, of all predicates or of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kgcore.arrays import Floats, Ints
from kgcore.config.calibrate import share_of
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError

ENDS = 3  # a value, the lower and the upper end of its interval


@dataclass(frozen=True)
class Completeness:
    """The share c of the true facts that a graph knows.

    shares        (R, ENDS) of each predicate: value, lower end, upper end, in (0, 1); NaN: not stated
    known         (R,) number of facts of the graph with each predicate, those of test included
    predicates    (R) names
    stated        the text that the user gave, or the name of the file
    by_predicate  whether each predicate has a share of its own
    """

    shares: Floats
    known: Ints
    predicates: Sequence[str]
    stated: str
    by_predicate: bool

    def missing(self, predicates: Sequence[int] | Ints, otherwise: int | None = None) -> Floats:
        """Return the number of unknown true facts for each known fact, (1 - c) / c: (b,) predicates -> (ENDS, b).

        otherwise  the predicate whose share a predicate without a share gets; None: each needs a share

        Raises InputError if a predicate has no share.
        """
        shares = self.shares[predicates]
        if otherwise is not None:
            shares = np.where(np.isnan(shares), self.shares[otherwise], shares)
        if lacking := [self.predicates[p] for p, own in zip(predicates, shares, strict=True) if np.isnan(own).any()]:
            raise InputError(f"completeness {self.stated} lacks {', '.join(lacking[:5])}: add a line for each")
        return ((1 - shares) / shares).T[[0, 2, 1]]

    def everywhere(self, predicate: int | None) -> float:
        """Return the number of unknown true facts of a predicate; None: of all predicates that have a share."""
        missing = (1 - self.shares[:, 0]) / self.shares[:, 0] * self.known
        return float(np.nansum(missing) if predicate is None else missing[predicate])


def read_completeness(text: str, graph: KnowledgeGraph) -> Completeness:
    """Read the completeness of a graph: a share, an interval LOW:HIGH, or a file with a line for each predicate.

    text  `0.8`, `0.7:0.9`, the path of a text file whose lines have a predicate, a tab, and a share or an interval, or
          these lines

    The value of an interval is its middle. Raises InputError for a share outside (0, 1), for a file that cannot be
    read, and for a line that is wrong; the message has the file and the line.
    """
    known = np.bincount(graph.all_known.triples[:, 1], minlength=len(graph.predicates))
    if (share := share_of(text)) is not None:
        shares = np.tile(share, (len(graph.predicates), 1))
        return Completeness(shares, known, graph.predicates, text, by_predicate=False)
    name = "of each predicate" if "\t" in text else Path(text).name
    shares = np.full((len(graph.predicates), ENDS), np.nan)
    places = {predicate: place for place, predicate in enumerate(graph.predicates)}
    for number, line in enumerate(completeness_lines(text).splitlines(), start=1):
        if not line.strip():
            continue
        predicate, tab, value = line.rpartition("\t")
        share = share_of(value.strip())
        if not tab or share is None:
            raise InputError(
                f"{name}, line {number}: it must be a predicate, a tab, and a share above 0 and below 1 or LOW:HIGH"
            )
        if predicate not in places:
            raise InputError(f"{name}, line {number}: the graph {graph.name} has no predicate {predicate!r}")
        shares[places[predicate]] = share
    return Completeness(shares, known, graph.predicates, name, by_predicate=True)


def completeness_lines(text: str) -> str:
    """Return the lines of a file of shares, given its path or the lines. Raises InputError if it cannot be read."""
    if "\t" in text:
        return text
    path = Path(text)
    if not path.is_file():
        raise InputError(
            f"completeness is {text!r}: it must be a share above 0 and below 1, an interval LOW:HIGH, or a file with a "
            "line for each predicate"
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: save the file as UTF-8 text") from error
