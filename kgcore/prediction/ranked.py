"""Ranks all answers to a query with one open side."""

import numpy as np

from kgcore.arrays import Triples
from kgcore.calibrated import CalibratedModel
from kgcore.prediction.pairs import PairSearch, best_pairs, search_pairs
from kgcore.prediction.question import Question


def best_answers_to(question: Question, model: CalibratedModel, top: int) -> Triples:
    """Return the `top` best answers (n, 3) to (s, p, ?) or (?, p, o), the highest score first.

    question  from `Question.of_query`

    All entities are candidates but the given one itself. Known facts are among the answers.
    """
    assert question.predicate is not None
    every = np.arange(len(model.graph.entities))
    subjects, objects = (every if given is None else np.array([given]) for given in (question.subject, question.object))
    search = PairSearch(subjects, objects, question.predicate, top, reflexive=False)
    return best_pairs(model.trained, search, search_pairs(model.trained, search, subjects))
