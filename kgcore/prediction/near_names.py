"""The message for names that the graph does not have: near spellings, and the frequent predicates."""

import difflib
from collections.abc import Sequence

import numpy as np

from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph

MOST_NEAR, MOST_FREQUENT = 3, 5
LARGEST_SEARCH = 100_000  # names that are compared; in a larger graph, names with the same first letter come first


def positions(graph: KnowledgeGraph, names: tuple[str, str, str]) -> tuple[int, int, int]:
    """Return the positions of subject, predicate and object in the graph's vocabularies; -1 for an unknown name."""
    known = (graph.entities, graph.predicates, graph.entities)
    s, p, o = (_position(names[i], known[i]) for i in range(3))
    return s, p, o


def positions_of(graph: KnowledgeGraph, names: tuple[str, str, str], hint: str = "") -> tuple[int, int, int]:
    """Return the positions of subject, predicate and object in the graph's vocabularies.

    hint  sentence that ends the message; '': none

    Raises InputError for unknown names. The message has near spellings and, for a predicate, the frequent predicates.
    """
    found = positions(graph, names)
    if faults := [_fault(graph, i, names[i]) for i in range(3) if found[i] < 0]:
        raise InputError(f"the graph {graph.name} has no {' and no '.join(faults)}" + (f". {hint}" if hint else ""))
    return found


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
    own: dict[str, str] = {}
    for other in known:
        own.setdefault(other.casefold(), other)
    return [own[near] for near in difflib.get_close_matches(folded, own, n=MOST_NEAR)]


def _position(name: str, known: Sequence[str]) -> int:
    try:
        return known.index(name)
    except ValueError:
        return -1


def _fault(graph: KnowledgeGraph, column: int, name: str) -> str:
    kind, known = ("predicate", graph.predicates) if column == 1 else ("entity", graph.entities)
    near = near_names(name, known)
    hints = [f"near names: {', '.join(near)}" if near else "no name is near"]
    if kind == "predicate":
        hints.append(f"frequent predicates: {', '.join(frequent_predicates(graph))}")
    return f"{kind} {name!r} ({'; '.join(hints)})"
