"""The answer sets of each predicate: how they are calibrated, how often they contain the true answer, their size."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.conformal.sets import SetRule
from kgcore.corruptions.base import OBJECT, SUBJECT
from kgcore.graph import KnowledgeGraph
from kgcore.models.scorer import Scorer
from kgcore.prediction.answer_sets import AnswerSets, Coverage, coverage_of
from kgcore.prediction.domains import Domains
from kgcore.prediction.parts import EachPart, OnPart, one_by_one


@dataclass(frozen=True)
class PredicateSets:
    """The answer sets of a predicate.

    predicate  its number
    side       what is asked for: OBJECT in (s, p, ?), SUBJECT in (?, p, o)
    rule       the rule of the sets
    test       its coverage on the test queries of the predicate
    """

    predicate: int
    side: int
    rule: SetRule
    test: Coverage


def sets_by_predicate(
    trained: Scorer,
    graph: KnowledgeGraph,
    domains: Domains,
    predicates: Sequence[int],
    coverage: float,
    on_part: OnPart = lambda done: None,
    each_part: EachPart = one_by_one,
) -> list[PredicateSets]:
    """Measure the answer sets of both sides of predicates, sorted by predicate.

    coverage   the probability that the set of a query contains its true answer, in (0, 1)
    on_part    function that is called with the share of the work that is done, from 0 to 1
    each_part  does the work of each group of predicates that share a rule
    """
    parts: list[tuple[int, tuple[int, ...]]] = []
    for side in (SUBJECT, OBJECT):
        sets = AnswerSets(trained, graph, domains, side, coverage)
        groups = {tuple(sets.group(predicate).tolist()) for predicate in predicates}
        parts += [(side, group) for group in sorted(groups)]
    found: list[PredicateSets] = []
    shared = trained, graph, domains, frozenset(predicates), coverage
    for done, (_, made) in enumerate(each_part(_of_group, shared, parts), 1):
        found += made
        on_part(done / len(parts))
    return sorted(found, key=lambda sets: (sets.predicate, -sets.side))


def _of_group(
    trained: Scorer,
    graph: KnowledgeGraph,
    domains: Domains,
    wanted: frozenset[int],
    coverage: float,
    part: tuple[int, tuple[int, ...]],
) -> list[PredicateSets]:
    side, group = part
    sets = AnswerSets(trained, graph, domains, side, coverage)
    rule, test = sets.rule(np.array(group)), graph.test.positives
    return [
        PredicateSets(predicate, side, rule, coverage_of(sets, test, {predicate: rule}))
        for predicate in group
        if predicate in wanted
    ]
