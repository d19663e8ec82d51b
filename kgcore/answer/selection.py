"""Selects missing facts so that the expected share of false ones in the list is at most a chosen level.

The unit is a query, (s, p, ?) or (?, p, o), and its candidate is its best answer: the one with the highest score that
is no known fact. The validation queries, which are those of the validation positives, give the negatives: the score of
their best answer that is no known fact, assumed to be false.

Why this is valid. Let B_j be the score of the best false answer of query j. If the best answer of j is false, its score
T_j equals B_j. If the B_j of the candidates' queries are exchangeable with those of the validation queries, then
P(p_j <= a and the best answer of j is false) <= P(p(B_j) <= a) <= a: the condition of Jin & Candes (2023), theorem 3.
If the best unknown answer of a validation query in truth is a fact, its score is above B: p-values get larger, the list
gets shorter, and the guarantee still holds. No base rate is needed.

The assumption, that false answers of both kinds of queries score alike, is made plausible in four ways:

* p-values compare a query only with validation queries of its own class: of the same predicate, on the same side, and
  both with or both without an answer in train. The model has learned from the answers in train, so the class matters.
  A functional predicate has no validation query with an answer in train: its queries with an answer are left out.
* If most queries of a predicate without an answer in train have no known answer at all, many of them have no true
  answer either, unlike validation queries. Then the class is left out: at least half must have a known answer.
* All queries choose among the same answers. The entities that ask and answer are inferred from train alone.
* An entity with many facts is more often in validation. Each of the d known facts of a query with an answer in train is
  in validation with the probability v, their share. So a query with d facts is (1 - v)^d / (1 - (1 - v)^d) times as
  likely to be a candidate, which has no fact there, as to be a validation query. This is its weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kgcore.answer.conformal import benjamini_hochberg, conformal_p_values
from kgcore.answer.domains import Domains
from kgcore.answer.queries import Move, PredicateQueries, best_answers
from kgcore.arrays import Bools, Floats, Ints, Scores, Triples, Weights
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.models.scorer import Scorer
from kgcore.workers import EachPart, one_by_one

FEWEST_QUERIES = 20  # validation queries of a class, from which its queries are candidates
MOST_NEEDED = 0.2  # largest `needed_share` of a class that is promising
SMALLEST_WEIGHT = 1e-12
MOST_HAVE_ANSWERS = 0.5  # share of the queries without an answer in train that must have another known answer


@dataclass(frozen=True)
class QueryCandidates:
    """The best answers of queries, with their p-values.

    triples   (n, 3) one per query
    p_values  (n,) in (0, 1]
    skipped   number of queries whose class does not fit (too few validation queries or known answers) or, if there are
              several predicates, is not promising
    """

    triples: Triples
    p_values: Floats
    skipped: int

    def selected(self, level: float) -> Bools:
        """Return which candidates (n,) are selected at a level in (0, 1) of the expected share of false ones."""
        return benjamini_hochberg(self.p_values, level)


@dataclass(frozen=True)
class Asked:
    """A kind of queries: predicate, side that is asked for, and the entity of a single query; None: every entity."""

    predicate: int
    side: int
    entity: int | None = None


_NONE = QueryCandidates(np.zeros((0, 3), dtype=np.int64), np.zeros(0), 0)


def query_side(graph: KnowledgeGraph, predicate: int) -> int:
    """Return what the queries of a predicate ask for: OBJECT or SUBJECT.

    It is the side with fewer different entities in train. Then there are more queries, with fewer answers each.
    """
    train = graph.train.positives
    facts = train[train[:, 1] == predicate]
    return OBJECT if len(np.unique(facts[:, 0])) >= len(np.unique(facts[:, 2])) else SUBJECT


@dataclass(frozen=True)
class _Class:
    """The queries of a class: those that calibrate, and those whose best answers are candidates.

    weights  (E,) weight of the query of each entity
    fits     whether enough queries calibrate, and enough queries have a known answer
    """

    predicate: int
    side: int
    calibrating: Ints
    asking: Ints
    weights: Weights
    fits: bool


@dataclass(frozen=True)
class FactSearch:
    """Finds the best answers of all queries of some kinds, with their p-values.

    level           the level at which candidates will be selected, in (0, 1)
    only_promising  whether classes that are unlikely to have a selected candidate at this level are left out:
                    `needed_share`
    """

    trained: Scorer
    graph: KnowledgeGraph
    domains: Domains
    level: float
    only_promising: bool

    def candidates(
        self,
        asked: Sequence[Asked],
        rng: np.random.Generator,
        on_part: Move = lambda done: None,
        each_part: EachPart = one_by_one,
    ) -> QueryCandidates:
        """Return the best answers of all queries of the given kinds.

        rng        breaks ties: each kind has a spawned generator
        on_part    function that is called with the number of kinds done
        each_part  does the work of each kind
        """
        parts: list[QueryCandidates] = [_NONE] * len(asked)
        kinds = list(zip(asked, rng.spawn(len(asked)), strict=True))
        for done, (number, candidates) in enumerate(each_part(FactSearch._of_kind, (self,), kinds), 1):
            parts[number] = candidates
            on_part(done)
        return _joined(parts)

    def _of_kind(self, kind: tuple[Asked, np.random.Generator]) -> QueryCandidates:
        asked, rng = kind
        parts: list[QueryCandidates] = []
        for queries in _classes(self.graph, self.domains, asked.predicate, asked.side):
            asking = queries.asking if asked.entity is None else queries.asking[queries.asking == asked.entity]
            if len(asking):
                parts.append(self._tested(replace(queries, asking=asking), rng))
        return _joined(parts)

    def _tested(self, queries: _Class, rng: np.random.Generator) -> QueryCandidates:
        """Return the candidates of a class with their p-values; none if the class does not fit or is not promising."""
        nothing = replace(_NONE, skipped=len(queries.asking))
        if not queries.fits:
            return nothing
        predicate, side = queries.predicate, queries.side
        answers, left_out = self.domains.of(predicate, side), self.domains.left_out(predicate)

        def best(entities: Ints) -> tuple[Ints, Triples, Scores]:
            rows, triples = best_answers(self.trained, PredicateQueries(predicate, side, entities, answers, left_out))
            return entities[rows], triples, self.trained.score(triples)

        entities, _, negatives = best(queries.calibrating)
        weights = queries.weights[entities]
        if self.only_promising:
            true = self.graph.valid.positives[self.graph.valid.positives[:, 1] == predicate]
            true = true[np.isin(true[:, SUBJECT if side == OBJECT else OBJECT], entities)]
            p_of_true = conformal_p_values(self.trained.score(true), negatives, rng)
            if needed_share(p_of_true, self.level) > MOST_NEEDED:
                return nothing
        entities, triples, scores = best(queries.asking)
        p = conformal_p_values(scores, negatives, rng, (queries.weights[entities], weights))
        return QueryCandidates(triples, p, 0)


def _joined(parts: Sequence[QueryCandidates]) -> QueryCandidates:
    every = [_NONE, *parts]
    return QueryCandidates(
        np.concatenate([part.triples for part in every]),
        np.concatenate([part.p_values for part in every]),
        sum(part.skipped for part in every),
    )


def needed_share(p_values: Floats, level: float) -> float:
    """Return which share of a class's queries must have a missing fact so that some of these facts are selected.

    Let a share pi of the candidates score as the true answers of the validation queries do. With r(u) the share of
    those with a p-value up to u, a share pi r(u) of the candidates has such a p-value. Selection from the class alone
    needs level pi r(u) >= u for some u. So the smallest pi is the minimum of u / (level r(u)).

    p_values  (n,) of the true answers of the validation queries
    level     in (0, 1)
    """
    ascending = np.sort(p_values)
    shares = np.arange(1, len(ascending) + 1) / len(ascending)
    return float((ascending / (level * shares)).min()) if len(ascending) else np.inf


def _classes(graph: KnowledgeGraph, domains: Domains, predicate: int, side: int) -> Iterator[_Class]:
    """Yield the class of queries without, and that with an answer in train."""
    column = SUBJECT if side == OBJECT else OBJECT
    entities, size = domains.of(predicate, column), len(graph.entities)
    train, valid, test = (
        np.bincount(facts[facts[:, 1] == predicate, column], minlength=size)
        for facts in (graph.train.positives, graph.valid.positives, graph.test.positives)
    )
    known = train + valid + test
    share = valid.sum() / max(known.sum(), 1)
    for answered in (False, True):
        members = entities[(train[entities] > 0) == answered]
        calibrating, asking = members[valid[members] > 0], members[valid[members] == 0]
        expected = answered or (len(members) > 0 and (known[members] > 0).mean() >= MOST_HAVE_ANSWERS)
        weights = _weights(known, share) if answered else np.ones(size)
        yield _Class(predicate, side, calibrating, asking, weights, expected and len(calibrating) >= FEWEST_QUERIES)


def _weights(facts: Ints, share: float) -> Weights:
    """Return the weights (n,) of queries with these numbers of known facts, of which a share is in validation."""
    without = (1 - share) ** np.maximum(facts, 1)
    return np.maximum(without, SMALLEST_WEIGHT) / np.maximum(1 - without, SMALLEST_WEIGHT)
