"""Ranks all answers to a query with one open side."""

import numpy as np
import pyarrow as pa

from kgcore.errors import InputError
from kgcore.prediction.answers import Answers
from kgcore.prediction.discovery import numbers_of
from kgcore.prediction.pairs import PairSearch, best_pairs, search_pairs


def ranked_answers(answers: Answers, subject: str, predicate: str, object_: str, top: int) -> pa.Table:
    """Return the `top` best answers to (s, p, ?) or (?, p, o), the highest score first, as `Answers.table` does.

    subject, object_  names; one of them is '', the open side

    All entities are candidates but the given one itself. Known facts are among the answers, and marked in `known`.
    Raises InputError if not exactly one side is open, or if a name is not in the graph.
    """
    if bool(subject) == bool(object_):
        raise InputError("subject and object: give one of them; the other one is answered")
    graph, trained = answers.model.graph, answers.model.trained
    s, p, o = numbers_of(graph, subject, predicate, object_)
    if p is None:
        raise InputError("predicate is empty: give the predicate of the query")
    every = np.arange(len(graph.entities))
    subjects, objects = (every if given is None else np.array([given]) for given in (s, o))
    search = PairSearch(subjects, objects, p, top, reflexive=False)
    return answers.table(answers.named(best_pairs(trained, search, search_pairs(trained, search, subjects))))
