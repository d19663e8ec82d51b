"""A question about missing facts, and the numbers of the names in it. Unknown names are told with near spellings."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.data.formats.base import COLUMNS
from kgcore.data.graph import KnowledgeGraph
from kgcore.errors import InputError, check_type

MOST_NEAR, MOST_FREQUENT = 3, 5
LARGEST_SEARCH = 100_000  # names that are compared; in a larger graph, names with the same first letter come first


@dataclass(frozen=True)
class Question:
    """The known parts of the missing facts that are asked for: positions in the graph; None: any.

    All None asks for the missing facts of the whole graph.
    """

    subject: int | None = None
    predicate: int | None = None
    object: int | None = None

    @classmethod
    def of(cls, graph: KnowledgeGraph, subject: str, predicate: str, object_: str) -> Self:
        """Return a question by names; '': any. Raises InputError as `positions_of` does."""
        names = subject, predicate, object_
        places = positions_of(graph, names, can_be_empty=True)
        return cls(*(place if name else None for name, place in zip(names, places, strict=True)))

    @classmethod
    def of_query(cls, graph: KnowledgeGraph, subject: str, predicate: str, object_: str) -> Self:
        """Return the query (s, p, ?) or (?, p, o) by names; '': the open side.

        Raises InputError if not exactly one side is open, without a predicate, and for a name that is not in the graph.
        """
        if bool(subject) == bool(object_):
            raise InputError("subject and object: give one of them; the other one is answered")
        if not predicate:
            raise InputError("predicate is empty: give the predicate of the query")
        return cls.of(graph, subject, predicate, object_)


def positions(graph: KnowledgeGraph, names: tuple[str, str, str]) -> tuple[int, int, int]:
    """Return the positions of subject, predicate and object in the graph's vocabularies; -1 for an unknown name."""
    s, p, o = (
        known.index(name) if name in known else -1
        for name, known in zip(names, (graph.entities, graph.predicates, graph.entities), strict=True)
    )
    return s, p, o


def positions_of(
    graph: KnowledgeGraph, names: tuple[str, str, str], hint: str = "", can_be_empty: bool = False
) -> tuple[int, int, int]:
    """Return the positions of subject, predicate and object in the graph's vocabularies.

    hint          sentence that ends the message; '': none
    can_be_empty  whether a name may be '', which has the position -1

    Raises InputError for a name that is no text, and for unknown names. The message has near spellings and, for a
    predicate, the frequent predicates.
    """
    for part, name in zip(COLUMNS, names, strict=True):
        check_type(f"the {part}", name or "", str, "text")
    if unknown := unknown_names(graph, names, can_be_empty):
        raise InputError(unknown + (f". {hint}" if hint else ""))
    return positions(graph, names)


def unknown_names(graph: KnowledgeGraph, names: tuple[str, str, str], can_be_empty: bool = False) -> str:
    """Return which of the names of `positions_of` are unknown, with near spellings; '' if all are known."""
    places = positions(graph, names)
    unknown = [i for i in range(3) if places[i] < 0 and (names[i] or not can_be_empty)]
    faults = " and no ".join(_fault(graph, i, names[i]) for i in unknown)
    return f"the graph {graph.name} has no {faults}" if faults else ""


def frequent_predicates(graph: KnowledgeGraph) -> list[str]:
    """Return the names of the predicates with the most training facts, at most MOST_FREQUENT, most frequent first."""
    counts = np.bincount(graph.train.positives[:, 1], minlength=len(graph.predicates))
    return [graph.predicates[i] for i in np.argsort(-counts, kind="stable")[:MOST_FREQUENT]]


def near_names(name: str, known: Sequence[str]) -> list[str]:
    """Return the known names that are spelled like `name`, at most MOST_NEAR, the nearest first.

    Letters may differ in case. Otherwise two names are near if their ratio is at least 0.6 (`difflib`: Ratcliff and
    Obershelp, 1988).
    """
    folded = name.casefold()
    if len(known) > LARGEST_SEARCH:
        known = sorted(known, key=lambda other: other[:1].casefold() != folded[:1])[:LARGEST_SEARCH]
    by_folded: dict[str, str] = {}
    for other in known:
        by_folded.setdefault(other.casefold(), other)
    return [by_folded[near] for near in difflib.get_close_matches(folded, by_folded, n=MOST_NEAR)]


def _fault(graph: KnowledgeGraph, column: int, name: str) -> str:
    kinds = ("predicate", graph.predicates), ("entity", graph.entities)
    (kind, known), (other_kind, others) = kinds if column == 1 else kinds[::-1]
    near = near_names(name, known)
    hints = [f"near names: {', '.join(near)}" if near else "no name is near"]
    if name in others:
        hints.append(f"it is a known {other_kind}: is the order subject, predicate, object?")
    if kind == "predicate":
        hints.append(f"frequent predicates: {', '.join(frequent_predicates(graph))}")
    return f"{kind} {name!r} ({'; '.join(hints)})"
