"""A question about missing facts: its known parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Bools
from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph


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
        """Return a question by names; '': any. Raises InputError for a name that is not in the graph."""
        return cls(
            _number("subject", subject, graph.entities),
            _number("predicate", predicate, graph.predicates),
            _number("object", object_, graph.entities),
        )

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


def _number(part: str, name: str, vocabulary: Sequence[str]) -> int | None:
    if not name:
        return None
    places: Bools = np.asarray(vocabulary, dtype=object) == name
    if not places.any():
        kind = "predicates" if part == "predicate" else "entities"
        raise InputError(f"the {part} {name!r} is not in the graph: it must be one of its {len(vocabulary):,} {kind}")
    return int(np.flatnonzero(places)[0])
