"""Answer sets of queries with a chosen coverage: calibrated on validation, measured on any held-out triples.

A held-out positive (s, p, o) is the query (s, p, ?) with the true answer o, and the query (?, p, o) with s. The other
known facts of the query are no candidates, in calibration as in use ("filtered"). Known are the facts of all splits, so
that validation and test triples are treated alike. Then they are exchangeable if the splits were drawn at random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from kgcore.answer.conformal import KINDS, SetRule, Standing, conformal_quantile
from kgcore.answer.domains import Domains
from kgcore.answer.queries import Move, PredicateQueries, score_blocks
from kgcore.arrays import Bools, Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.models.scorer import Scorer
from kgcore.workers import EachPart, OnPart, one_by_one

FEWEST_TRIPLES = 100  # validation positives of a predicate, from which it has its own quantile
ROUNDING = 1e-12  # relative error of the difference of two numbers
MOST_SIZED = 500  # validation queries of a group whose set sizes decide the measure of nonconformity


@dataclass(frozen=True)
class AnswerSets:
    """Calibrates and makes answer sets.

    trained   the model
    graph     the graph
    domains   candidates for answers. If they are typed, all entities are candidates too where that gives smaller sets
    side      what is asked for: OBJECT in (s, p, ?), SUBJECT in (?, p, o)
    coverage  the probability that the set of a query contains its true answer, in (0, 1)
    on_block  function that is called with the number of queries of each block that was scored
    """

    trained: Scorer
    graph: KnowledgeGraph
    domains: Domains
    side: int
    coverage: float
    on_block: Move = lambda queries: None

    def group(self, predicate: int) -> Ints:
        """Return the predicates whose validation positives calibrate the answer sets of a predicate.

        It is the predicate alone if it has at least FEWEST_TRIPLES. Otherwise it is all predicates that have fewer, if
        these together have as many, and else all predicates.
        """
        counts = np.bincount(self.graph.valid.positives[:, 1], minlength=len(self.graph.predicates))
        if counts[predicate] >= FEWEST_TRIPLES:
            return np.array([predicate])
        few = counts < FEWEST_TRIPLES
        return np.flatnonzero(few if counts[few].sum() >= FEWEST_TRIPLES else counts >= 0)

    def rule(self, group: Ints) -> SetRule:
        """Return the rule of the answer sets of a group of predicates.

        Of the measures in KINDS, and of typed candidates and all entities, it has the pair with the smallest mean set
        on (at most MOST_SIZED of) the validation queries. An answer that is no candidate counts as missed. To choose by
        the same triples that calibrate costs at most a little coverage (Yang & Kuchibhotla, Journal of the American
        Statistical Association 120, 2025, section 3).
        """
        valid, sample = self._calibrating(group)
        rules: list[SetRule] = []
        sizes: list[float] = []
        for is_typed in {self.domains.is_typed, False}:
            standing = self.standing(valid, is_typed)
            for kind in KINDS:
                quantile = conformal_quantile(standing.nonconformity(kind), self.coverage)
                rules.append(SetRule(kind, quantile, self.coverage, len(valid), len(group) > 1, is_typed))
            sizes += (
                self.sizes(sample, rules[-len(KINDS) :]).mean(axis=1).tolist() if len(sample) else [0.0] * len(KINDS)
            )
        return rules[int(np.argmin(sizes))]

    def work(self, group: Ints) -> int:
        """Return the number of queries that `rule` scores for a group: the sum of what it passes to `on_block`."""
        return sum(map(len, self._calibrating(group))) * (2 if self.domains.is_typed else 1)

    def _calibrating(self, group: Ints) -> tuple[Triples, Triples]:
        """Return the validation positives of a group, and those whose set sizes are measured."""
        valid = self.graph.valid.positives
        valid = valid[np.isin(valid[:, 1], group)]
        return valid, valid[:: max(1, -(-len(valid) // MOST_SIZED))]

    def covered(self, triples: Triples, rule: SetRule) -> Bools:
        """Return whether the set of each triple's query contains its true answer: (n, 3) -> (n,)."""
        return self.standing(triples, rule.is_typed).nonconformity(rule.kind) <= rule.quantile

    def standing(self, triples: Triples, is_typed: bool) -> Standing:
        """Return where the true answers of triples (n, 3) stand among typed candidates, or among all entities."""
        score, best, level = (np.full(len(triples), -np.inf) for _ in range(3))
        rank = np.zeros(len(triples), dtype=np.int64)
        for rows, queries in self._queries(triples, is_typed):
            place = torch.from_numpy(np.searchsorted(queries.candidates, triples[rows, self.side]))
            place = place.clip(max=len(queries.candidates) - 1)
            held = queries.candidates[place.numpy()] == triples[rows, self.side]
            for taken, scores in score_blocks(self.trained, queries):
                mine = scores.gather(1, place[taken, None].to(scores.device))
                block = rows[taken]
                score[block] = np.where(held[taken], mine.squeeze(1).cpu().numpy(), -np.inf)
                best[block] = scores.amax(1).cpu().numpy()
                level[block] = scores.double().logsumexp(1).cpu().numpy()
                rank[block] = 1 + (scores > mine).sum(1).cpu().numpy()
                self.on_block(len(block))
        return Standing(score, best, level, rank)

    def sizes(self, triples: Triples, rules: Sequence[SetRule]) -> Ints:
        """Return the sizes of the answer sets of triples' queries by m rules: (n, 3) -> (m, n).

        The rules have the same candidates. A rule that accepts every entity gives sets of that size.
        """
        sizes = np.full((len(rules), len(triples)), len(self.graph.entities))
        for rows, queries in self._queries(triples, rules[0].is_typed):
            for taken, scores in score_blocks(self.trained, queries):
                for row, rule in zip(sizes, rules, strict=True):
                    if rule.quantile < np.inf:
                        row[rows[taken]] = accepted(scores, rule).sum(1).cpu().numpy()
                self.on_block(len(rows[taken]))
        return sizes

    def of(self, predicate: int, entity: int, rule: SetRule) -> Triples:
        """Return the answer set of one query as triples (n, 3), in the order of the entities.

        If the quantile of the rule is inf, it has every entity except the known answers.
        """
        candidates = self._candidates(predicate, rule.is_typed and rule.quantile < np.inf)
        queries = self._queries_of(predicate, np.array([entity]), candidates)
        answers = [np.zeros((0, 3), dtype=np.int64)]
        for _, scores in score_blocks(self.trained, queries):
            places = accepted(scores, rule)[0].nonzero().squeeze(1).cpu().numpy()
            answers.append(queries.triples(np.zeros(len(places), dtype=np.int64), candidates[places]))
        return np.concatenate(answers)

    def _candidates(self, predicate: int, is_typed: bool) -> Ints:
        return self.domains.of(predicate, self.side) if is_typed else np.arange(len(self.graph.entities))

    def _queries(self, triples: Triples, is_typed: bool) -> list[tuple[Ints, PredicateQueries]]:
        """Return the queries of triples, one predicate after the other, with their rows. True answers are kept."""
        by_predicate = []
        for predicate in np.unique(triples[:, 1]).tolist():
            rows = np.flatnonzero(triples[:, 1] == predicate)
            candidates = self._candidates(predicate, is_typed)
            if len(candidates):
                asking = triples[rows, SUBJECT if self.side == OBJECT else OBJECT]
                by_predicate.append((rows, self._queries_of(predicate, asking, candidates, triples[rows, self.side])))
        return by_predicate

    def _queries_of(
        self, predicate: int, entities: Ints, candidates: Ints, kept: Ints | None = None
    ) -> PredicateQueries:
        return PredicateQueries(predicate, self.side, entities, candidates, self.domains.left_out(predicate), kept)


def accepted(scores: torch.Tensor, rule: SetRule) -> torch.Tensor:
    """Return which answers the sets contain: scores (q, c) of the candidates -> (q, c). -inf is no answer."""
    possible = scores > -torch.inf
    if rule.quantile == np.inf:
        return possible
    if rule.kind == "rank":
        count = min(int(rule.quantile), scores.shape[1])
        least = scores.topk(count, 1).values[:, -1:].double()
    elif rule.kind == "score":
        least = torch.full_like(scores[:, :1], -rule.quantile, dtype=torch.float64)
    elif rule.kind == "gap":
        least = scores.amax(1, keepdim=True).double() - rule.quantile
    else:
        least = scores.double().logsumexp(1, keepdim=True) - rule.quantile
    return possible & (scores >= least - ROUNDING * (1 + least.abs()))


@dataclass(frozen=True)
class Coverage:
    """How often answer sets contain the true answer, on held-out queries.

    queries  number of queries
    covered  share of the queries whose set contains the true answer
    size     mean size of the sets
    """

    queries: int
    covered: float
    size: float


def coverage_of(sets: AnswerSets, triples: Triples, rules: Mapping[int, SetRule]) -> Coverage:
    """Measure the answer sets on the queries of held-out positives (n, 3), for the predicates that have a rule."""
    inside: list[Bools] = []
    sizes: list[Floats] = []
    for predicate, rule in rules.items():
        asked = triples[triples[:, 1] == predicate]
        inside.append(sets.covered(asked, rule))
        sizes.append(sets.sizes(asked, [rule])[0].astype(np.float64))
    covered, size = np.concatenate([np.zeros(0), *inside]), np.concatenate([np.zeros(0), *sizes])
    if not len(size):
        return Coverage(0, float("nan"), float("nan"))
    return Coverage(len(size), float(covered.mean()), float(size.mean()))


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
    measured: list[PredicateSets] = []
    shared = trained, graph, domains, frozenset(predicates), coverage
    for done, (_, of_group) in enumerate(each_part(_of_group, shared, parts), 1):
        measured += of_group
        on_part(done / len(parts))
    return sorted(measured, key=lambda sets: (sets.predicate, -sets.side))


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
