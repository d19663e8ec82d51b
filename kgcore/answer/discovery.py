"""Lists of missing facts that need no base rate: those with few false facts, and answer sets. Frequent flyers in them.

A frequent flyer is an entity that is in far more answers than its facts let one expect.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import pdtrc

from kgcore.answer.answer_sets import AnswerSets, Coverage, coverage_of
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.conformal import SetRule
from kgcore.answer.domains import Domains
from kgcore.answer.question import Question
from kgcore.answer.selection import Asked, FactSearch, QueryCandidates, query_side
from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.errors import InputError
from kgcore.workers import EachPart, OnPart, one_by_one

ERROR = 0.01  # probability to report any frequent flyer, if the answers are spread as the facts are
FEWEST_ANSWERS = 3


@dataclass(frozen=True)
class Discovery:
    """Answers questions about missing facts.

    model     the calibrated model
    domains   the candidates: which entities can be the subject and the object of a predicate
    at_least  fewest calibration triples of a predicate, true and false each, for which its triples have a probability
    """

    model: CalibratedModel
    domains: Domains
    at_least: int

    def predicates(self, question: Question) -> list[int]:
        """Return the predicates that a question asks about.

        If it names none, they are those with enough calibration triples.
        """
        if question.predicate is not None:
            return [question.predicate]
        every, support = np.arange(len(self.model.graph.predicates)), self.model.calibrator.support
        if support is None:
            return [int(predicate) for predicate in every]
        return [int(predicate) for predicate in every[support.fewest(every) >= self.at_least]]

    def with_few_false(
        self,
        question: Question,
        level: float,
        rng: np.random.Generator,
        on_part: OnPart = lambda done: None,
        each_part: EachPart = one_by_one,
    ) -> tuple[Triples, Floats, QueryCandidates]:
        """Return missing facts of which at most a share `level` is false, in expectation, and all candidates.

        The facts (n, 3) come best first, with their p-values (n,).

        kgcore/answer/selection.py describes the list. If no part of the question but the predicate is given, each
        subject has at most one object in the list, or each object at most one subject.

        rng                 breaks ties of scores
        on_part             function that is called with the share of the work that is done, from 0 to 1
        each_part           searches the parts of the candidates

        Raises InputError if the question has both a subject and an object.
        """
        if question.subject is not None and question.object is not None:
            raise InputError("a list with few false facts is about queries: give a subject or an object, not both")
        graph, predicates = self.model.graph, self.predicates(question)
        asked = []
        for predicate in predicates:
            side = query_side(graph, predicate)
            if question.subject is not None or question.object is not None:
                side = OBJECT if question.object is None else SUBJECT
            entity = question.subject if side == OBJECT else question.object
            asked.append(Asked(predicate, side, entity))

        def move(done: int) -> None:
            on_part(done / len(asked))

        search = FactSearch(self.model.trained, graph, self.domains, level, only_promising=len(asked) > 1)
        candidates = search.candidates(asked, rng, move, each_part)
        chosen = candidates.selected(level)
        triples, p = candidates.triples[chosen], candidates.p_values[chosen]
        order = probability_order(self.model, triples)
        return triples[order], p[order], candidates

    def answer_set(
        self, question: Question, coverage: float, on_part: OnPart = lambda done: None
    ) -> tuple[Triples, SetRule, Coverage]:
        """Return the answer set of a query (n, 3), best first, its rule, and its coverage of test queries.

        The test queries are those of the predicates that share the rule.

        coverage  the probability that the set contains the true answer, in (0, 1)
        on_part   as in `with_few_false`

        Raises InputError if the question does not have a predicate and either a subject or an object.
        """
        if question.predicate is None or (question.subject is None) == (question.object is None):
            raise InputError("an answer set belongs to a query: give a predicate, and a subject or an object")
        side = OBJECT if question.object is None else SUBJECT
        entity = question.subject if side == OBJECT else question.object
        assert entity is not None
        sets = AnswerSets(self.model.trained, self.model.graph, self.domains, side, coverage)
        group, test = sets.group(question.predicate), self.model.graph.test.positives
        total, done = sets.work(group) + 2 * int(np.isin(test[:, 1], group).sum()), 0

        def move(queries: int) -> None:
            nonlocal done
            done += queries
            on_part(min(1.0, done / max(total, 1)))

        sets = replace(sets, on_block=move)
        rule = sets.rule(group)
        measured = coverage_of(sets, test, dict.fromkeys(group.tolist(), rule))
        triples = sets.of(question.predicate, entity, rule)
        return triples[probability_order(self.model, triples)], rule, measured


def probability_order(model: CalibratedModel, triples: Triples) -> Ints:
    """Return the rows of triples (n, 3), from the highest probability down; then by score, then by number."""
    scores = model.trained.score(triples)
    q = model.calibrator.predict(scores, model.calibrator.model, triples[:, 1])
    return np.lexsort((triples[:, 2], triples[:, 1], triples[:, 0], -scores, -q))


@dataclass(frozen=True)
class Flyer:
    """An entity that is in more answers than expected.

    entity    its number
    column    SUBJECT or OBJECT: its part in these answers
    answers   number of answers
    expected  expected number of answers
    """

    entity: int
    column: int
    answers: int
    expected: float


def frequent_flyers(graph: KnowledgeGraph, triples: Triples, columns: Sequence[int]) -> list[Flyer]:
    """Return the frequent flyers among answers (n, 3), from the most answers down.

    columns  SUBJECT, OBJECT or both: the parts of the answers that were not given

    With n_p answers of predicate p, N_p training facts of it, and E_p entities that have one, an entity with d_p of
    these facts is expected in

        sum_p n_p (d_p + 1) / (N_p + E_p + 1)

    answers. It is reported if at least FEWEST_ANSWERS have it, and a Poisson variable with this mean is so large with a
    probability below ERROR, divided by the number of entities in the answers (Bonferroni).
    """
    train, flyers = graph.train.positives, list[Flyer]()
    for column in columns:
        entities, answers = np.unique(triples[:, column], return_counts=True)
        expected = np.zeros(len(entities))
        for predicate, count in zip(*np.unique(triples[:, 1], return_counts=True), strict=True):
            facts = np.bincount(train[train[:, 1] == predicate, column], minlength=len(graph.entities))
            expected += count * (facts[entities] + 1) / (facts.sum() + (facts > 0).sum() + 1)
        rare = pdtrc(answers - 1, expected) < ERROR / max(len(entities), 1)
        flyers += [
            Flyer(int(entities[i]), column, int(answers[i]), float(expected[i]))
            for i in np.flatnonzero(rare & (answers >= FEWEST_ANSWERS))
        ]
    return sorted(flyers, key=lambda flyer: (-flyer.answers, flyer.entity))
