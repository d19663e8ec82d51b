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
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Scores, Triples, Weights
from kgcore.conformal.selection import benjamini_hochberg, conformal_p_values
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.graph import KnowledgeGraph
from kgcore.models.trained import TrainedModel
from kgcore.prediction.domains import Domains
from kgcore.prediction.queries import Move, Queries, best_answers

FEWEST_QUERIES = 20  # validation queries of a class, from which its queries are candidates
MOST_HAVE_ANSWERS = 0.5  # share of the queries without an answer in train that must have another known answer


@dataclass(frozen=True)
class Candidates:
    """The best answers of queries, with their p-values.

    triples   (n, 3) one per query
    scores    (n,)
    p_values  (n,) in (0, 1]
    skipped   number of queries whose class has too few validation queries or too few known answers
    """

    triples: Triples
    scores: Scores
    p_values: Floats
    skipped: int

    def selected(self, level: float) -> Bools:
        """Return which candidates (n,) are selected at a level in (0, 1) of the expected share of false ones."""
        return benjamini_hochberg(self.p_values, level)


def query_side(graph: KnowledgeGraph, predicate: int) -> int:
    """Return what the queries of a predicate ask for: OBJECT or SUBJECT.

    It is the side with fewer different entities in train. Then there are more queries, with fewer answers each.
    """
    train = graph.train.positives
    own = train[train[:, 1] == predicate]
    return OBJECT if len(np.unique(own[:, 0])) >= len(np.unique(own[:, 2])) else SUBJECT


def candidates_of(
    trained: TrainedModel,
    graph: KnowledgeGraph,
    domains: Domains,
    asked: Sequence[tuple[int, int, int | None]],
    rng: np.random.Generator,
    on_block: Move = lambda done: None,
) -> Candidates:
    """Return the best answers of all queries of the given kinds, with their p-values.

    asked     predicate, side that is asked for, and the entity of a single query; None: every entity of the domain
    rng       breaks ties
    on_block  function that is called with the number of kinds done
    """
    parts: list[Candidates] = []
    for done, (predicate, side, entity) in enumerate(asked, 1):
        parts += _classes(trained, graph, domains, (predicate, side, entity), rng)
        on_block(done)
    return Candidates(
        np.concatenate([np.zeros((0, 3), dtype=np.int64), *(part.triples for part in parts)]),
        np.concatenate([np.zeros(0), *(part.scores for part in parts)]),
        np.concatenate([np.zeros(0), *(part.p_values for part in parts)]),
        sum(part.skipped for part in parts),
    )


def _classes(
    trained: TrainedModel,
    graph: KnowledgeGraph,
    domains: Domains,
    asked: tuple[int, int, int | None],
    rng: np.random.Generator,
) -> Iterator[Candidates]:
    """Yield the candidates of each class of queries: without, then with an answer in train."""
    predicate, side, entity = asked
    column = SUBJECT if side == OBJECT else OBJECT
    entities = domains.of(predicate, column)
    counts = [_counts(triples, predicate, column, len(graph.entities)) for triples in _splits(graph)]
    train, valid, known = counts[0], counts[1], counts[0] + counts[1] + counts[2]
    share = valid.sum() / max(known.sum(), 1)
    for answered in (False, True):
        own = entities[(train[entities] > 0) == answered]
        calibrating, asking = own[valid[own] > 0], own[valid[own] == 0]
        if entity is not None:
            asking = asking[asking == entity]
        if not len(asking):
            continue
        expected = answered or (known[own] > 0).mean() >= MOST_HAVE_ANSWERS
        if len(calibrating) < FEWEST_QUERIES or not expected:
            yield Candidates(np.zeros((0, 3), dtype=np.int64), np.zeros(0), np.zeros(0), len(asking))
            continue
        everyone = Queries(
            predicate,
            side,
            np.r_[calibrating, asking],
            domains.of(predicate, side),
            domains.left_out(predicate),
        )
        rows, triples = best_answers(trained, everyone)
        scores = trained.score(triples)
        weights = _weights(known[everyone.entities[rows]], share) if answered else np.ones(len(rows))
        is_candidate = rows >= len(calibrating)
        p = conformal_p_values(
            scores[is_candidate], scores[~is_candidate], rng, (weights[is_candidate], weights[~is_candidate])
        )
        yield Candidates(triples[is_candidate], scores[is_candidate], p, 0)


def _splits(graph: KnowledgeGraph) -> tuple[Triples, Triples, Triples]:
    return graph.train.positives, graph.valid.positives, graph.test.positives


def _counts(triples: Triples, predicate: int, column: int, size: int) -> Ints:
    """Return the number of facts (E,) of the predicate that each entity has in a column."""
    return np.bincount(triples[triples[:, 1] == predicate, column], minlength=size)


def _weights(facts: Ints, share: float) -> Weights:
    """Return the weights (n,) of queries with this number of known facts, of which a share is in validation."""
    without = (1 - share) ** facts
    weights: Weights = np.maximum(without, 1e-12) / (1 - without)
    return weights
