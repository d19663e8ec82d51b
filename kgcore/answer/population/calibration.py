"""A model that is calibrated to a population, and the lists that it makes."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.pairs import PairBlock
from kgcore.answer.population.division import divided
from kgcore.answer.population.draw import highest
from kgcore.answer.population.fit import (
    Count,
    Lost,
    PopulationFit,
    fit_population,
    in_order,
    list_order,
    lost_share,
)
from kgcore.answer.population.population import FEWEST_ROWS, NOTHING_STATED, Population, UnknownFacts, of_base_rate
from kgcore.answer.population.survey import Survey
from kgcore.answer.question import Question
from kgcore.arrays import Ints, Triples
from kgcore.base_rate import BaseRate
from kgcore.combiners.base import CombinedModel
from kgcore.workers import EachPart, one_by_one

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel


ELSEWHERE = (
    " (about {number} more missing facts are not among them: validation has few facts of their predicate{left_out}, or "
    "an entity does not fit it or is not asked for)"
)
MOST_NAMED = 3  # predicates that a sentence names
LESS = 0.97  # of the rows of a file, whose expected number stands beside the stated one
MUCH_LESS = 0.9  # share of the stated true candidates below which the evidence contradicts the statement
UNEQUAL = 3.0  # times the share of true candidates of another predicate, from which a sentence says so
REFUTED = 2.0  # times as many facts with a twin as there are candidates with one cannot be missing one by one
CONTRADICTED = (
    ". {names}: {stated} true candidates are stated, but only about {most} look like these facts, and three quarters "
    "of them are expected to be true. The graph is more complete than stated, or its missing facts are unlike these"
)
TOGETHER = (
    ". Of {names}, far fewer candidates have a mirror image or an inverse in train than if facts were missing one by "
    "one: to have one makes a candidate no likelier"
)
DIFFERENT = (
    ". The evidence about them suggests that the predicates differ: {high:.2g} of those of {most} are expected to be "
    "true, and {low:.2g} of those of {least}"
)
ALL_ALIKE = (
    ". It is taken for the completeness of every predicate: if they differ, the list can be far off, so state a file"
)


@dataclass(frozen=True)
class Calibration:
    """A model that is calibrated to a population.

    population  the candidates
    survey      the evidence about them
    fit         its calibrator. If nothing was stated, it serves the order of a list alone: its base rate is arbitrary
    model       the calibrated model
    true        number of true candidates that the user states; None: nothing was stated
    asked       the predicate that is asked about; None: all
    together    predicates whose facts are missing together with their twins: see `_shares_with_twins`
    """

    population: Population
    survey: Survey
    fit: PopulationFit
    model: CalibratedModel
    true: UnknownFacts | None
    asked: int | None = None
    together: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        population: Population,
        survey: Survey,
        models: "Sequence[TrainedModel]",
        true: UnknownFacts | None,
        rng: np.random.Generator,
        asked: int | None = None,
    ) -> "Calibration":
        """Calibrate a survey to the number of true candidates.

        models  the model of the survey's evidence, and the further models

        Raises FitError if a fit does not converge.
        """
        graph, sizes = population.graph, population.sizes
        nominal = min(0.5, len(survey.facts) / float(sizes.sum()))  # as many as validation knows
        count = number = true or of_base_rate(population, BaseRate(nominal))
        twins = _shares_with_twins(population, survey, count)
        survey, groups = survey.with_twins(twins, rng), None
        if population.rows is not None and not count.by_predicate:
            unfitted = CombinedModel(survey.combined, models[0], graph, tuple(models[1:]))
            groups, number = divided(population, survey, unfitted.score, count, rng)
        fit = fit_population(survey, number, sizes, graph.fingerprint(), rng, groups)
        survey = fit.survey
        top = survey.drawn.in_top
        judged = survey.drawn.triples[top], survey.log_odds[top]
        scorer = CombinedModel(survey.combined, models[0], graph, tuple(models[1:]), judged)
        bound = replace(fit.bound, rate=BaseRate(float(np.clip(count.total / sizes.sum(), 1e-12, 1 - 1e-12))))
        if true is not None and asked is not None:  # what is stated is about the predicate that is asked about
            [place] = [n for n, block in enumerate(population.blocks) if block.predicate == asked]
            bound = replace(bound, rate=BaseRate(float(true.values[place] / sizes[place])))
        together = tuple(predicate for predicate, share in twins.items() if not share)
        return cls(population, survey, fit, CalibratedModel(scorer, bound, graph), true, asked, together)

    @property
    def basis(self) -> str:
        """Return what the user has stated in place of a base rate, such as `completeness 0.8`; '' for nothing."""
        return self.true.stated if self.true is not None and self.true.everywhere is not None else ""

    @property
    def about(self) -> str:
        """Return what the probabilities are about, or why there are none, in a sentence."""
        asked = np.array([self.asked in (None, block.predicate) for block in self.population.blocks])
        candidates, facts = int(self.population.sizes[asked].sum()), len(self.survey.facts)
        if self.true is None:
            return NOTHING_STATED.format(candidates=f"{candidates:,} candidates")
        true, likely = float(self.true.values[asked].sum()), self._likely()
        low, high = (_count(float(ends[asked].sum())) for ends in (self.true.low, self.true.high))
        number = _count(true) if low == high else f"{_count(true)} ({low} to {high})"
        others = (self.true.everywhere or 0.0) - true if self.population.rows is None else 0.0
        elsewhere = ""
        noise = 0.0 if self.asked is None else 2 / math.sqrt(max(1, int((self.survey.facts[:, 1] == self.asked).sum())))
        if others > (0.05 + noise) * true:
            elsewhere = ELSEWHERE.format(number=_count(others), left_out=self._left_out())
        text = (
            f"the probabilities are about {candidates:,} candidates, {number} of them true by the stated "
            f"{self.true.stated}{elsewhere}, and are calibrated to these with {facts:,} validation facts"
        )
        unknown, names = self.fit.unknown, self.population.graph.predicates
        if contradicted := [place for place in unknown.contradicted if asked[place]]:
            text += CONTRADICTED.format(
                names=_some_of([names[self.population.blocks[place].predicate] for place in contradicted]),
                stated=_count(float(self.true.values[contradicted].sum())),
                most=_count(float(unknown.high[contradicted].sum())),
            )
        elif likely < (MUCH_LESS * true - 3 * math.sqrt(true) if self.population.rows is None else LESS * true):
            text += (
                f". Only about {_count(likely)} candidates look like these facts: fewer are true than stated, or they "
                "are unlike the facts of validation"
            )
        text += self._differing()
        if together := [number for number in self.together if self.asked in (None, number)]:
            text += TOGETHER.format(names=", ".join(names[number] for number in together))
        if (
            self.asked is None
            and asked.sum() > 1
            and self.basis.startswith("completeness")
            and not self.true.by_predicate
        ):
            text += ALL_ALIKE
        return text

    def _differing(self) -> str:
        """Return which predicates of a file have the highest and the lowest share of true candidates, if it matters."""
        predicates = self.survey.drawn.triples[:, 1]
        sizes = np.bincount(predicates)
        places = np.flatnonzero(sizes >= FEWEST_ROWS)
        if self.population.rows is None or len(places) < 2:
            return ""
        q = self.fit.probabilities(self.survey.log_odds, predicates)
        shares = np.bincount(predicates, q)[places] / sizes[places]
        high, low = float(shares.max()), float(shares.min())
        if high < UNEQUAL * low:
            return ""
        most, least = (self.population.graph.predicates[places[at]] for at in (shares.argmax(), shares.argmin()))
        return DIFFERENT.format(high=high, most=most, low=low, least=least)

    def _left_out(self) -> str:
        """Return the predicates of the graph without candidates, the most frequent first; '' if one is asked about."""
        graph = self.population.graph
        facts = np.bincount(graph.train.positives[:, 1], minlength=len(graph.predicates))
        facts[[block.predicate for block in self.population.blocks]] = 0
        numbers = np.argsort(-facts, kind="stable")[: np.count_nonzero(facts)]
        if self.asked is not None or not len(numbers):
            return ""
        return f", as of {_some_of([graph.predicates[number] for number in numbers.tolist()])}"

    def _likely(self) -> float:
        """Return the sum of the probabilities of all candidates that are asked about."""
        triples = self.survey.drawn.triples
        asked = np.ones(len(triples), dtype=bool) if self.asked is None else triples[:, 1] == self.asked
        q = self.fit.probabilities(self.survey.log_odds[asked], triples[asked, 1])
        return float(self.survey.drawn.weights[asked] @ q)

    def most_probable(
        self,
        question: Question,
        top: int,
        above: float = 0.0,
        each_part: EachPart = one_by_one,
    ) -> tuple[Triples, Lost]:
        """Return the `top` missing facts with the highest probabilities, all above a limit, and how many are lost.

        The best facts of whole predicates are in the survey. Those of a query are ranked block by block: see `ranked`.
        """
        blocks = self.population.blocks_of(question)
        if len(blocks) == len(self.population.blocks) and all(map(operator.is_, blocks, self.population.blocks)):
            return self._listed(in_order(self.survey, self.fit)[:top], above, None)
        lists = [self.ranked(block, top, above, each_part) for block in blocks]
        triples = np.concatenate([np.zeros((0, 3), dtype=np.int64), *(own for own, _ in lists)])
        lost = max((own for _, own in lists), key=lambda own: own.limit, default=Lost())
        return self._sorted(triples, top, above), lost

    def ranked(
        self, block: PairBlock, top: int, above: float = 0.0, each_part: EachPart = one_by_one
    ) -> tuple[Triples, Lost]:
        """Return the `top` most probable candidates of a block, and how many are lost: see `most_probable`.

        If the block is one of the population's, they are in the survey, unless it has too few. Otherwise all candidates
        of the block are searched, and none is lost.
        """
        if any(of_population is block for of_population in self.population.blocks):
            rows = in_order(self.survey, self.fit)
            rows = rows[self.survey.drawn.triples[rows, 1] == block.predicate]
            if len(rows) >= top or not np.isfinite(self.survey.drawn.lowest[block.predicate]):
                return self._listed(rows[:top], above, block.predicate)
        return self._sorted(highest(self.population, block, self.model.trained, top, each_part), top, above), Lost()

    def _listed(self, rows: Ints, above: float, predicate: int | None) -> tuple[Triples, Lost]:
        """Return candidates of the survey, of one predicate or any, all above a limit, and how many are lost."""
        drawn, facts = self.survey.drawn, self.survey.facts
        q = self.fit.probabilities(self.survey.log_odds[rows], drawn.triples[rows, 1])
        rows, q = (rows[q > above], q[q > above]) if above else (rows, q)
        if not len(rows) or drawn.in_top.all():
            return drawn.triples[rows], Lost()
        likely = self.fit.probabilities(self.survey.of_facts, facts[:, 1]) >= q[-1]
        likely &= (facts[:, 1] == predicate) | (predicate is None)
        return drawn.triples[rows], lost_share(likely, self.survey.facts_in_top)

    def answers(self, query: Question, top: int) -> Triples:
        """Return the `top` most probable answers (n, 3) to a query, the known facts among them."""
        known = self.population.graph.all_known.triples
        is_answer = (known[:, 1] == query.predicate) & ((known[:, 0] == query.subject) | (known[:, 2] == query.object))
        missing, _ = self.most_probable(query, top)
        return self._sorted(np.concatenate([missing, known[is_answer]]), top, 0.0)

    def count(self, triples: Triples) -> Count:
        """Return the number of true ones among missing facts (n, 3)."""
        return self.fit.count(self.model.trained.score(triples), triples[:, 1], np.random.default_rng(0))

    def order(self, triples: Triples) -> Ints:
        """Return the rows of triples (n, 3) in the order of a list."""
        log_odds = self.model.trained.score(triples)
        return list_order(self.fit.probabilities(log_odds, triples[:, 1]), log_odds, triples)

    def _sorted(self, triples: Triples, top: int, above: float) -> Triples:
        """Return the most probable ones of triples (n, 3), all above a limit, in the order of a list."""
        log_odds = self.model.trained.score(triples)
        q = self.fit.probabilities(log_odds, triples[:, 1])
        order = list_order(q, log_odds, triples)[:top]
        return triples[order[q[order] > above]] if above else triples[order]


def _shares_with_twins(population: Population, survey: Survey, true: UnknownFacts) -> dict[int, float]:
    """Return predicate -> the share of its true candidates that have a twin in train.

    Facts with a twin are taken to be missing by chance, each by itself. So a predicate has the same share of all
    missing facts as of the known ones, unless the user states its number. True candidates with a twin are at most as
    many as there are candidates with a twin. If these are less than 1 / REFUTED of the expected number, facts and their
    twins are missing together, and the share is 0.
    """
    known, facts = (
        population.counts(triples).astype(np.float64)
        for triples in (population.graph.all_known.triples, population.positives)
    )
    numbers, of_facts = (
        true.values if true.by_predicate else true.total * counts / counts.sum() for counts in (known, facts)
    )
    shares = {}
    for place, predicate in enumerate(block.predicate for block in population.blocks):
        with_twin = survey.rows_with_twin(predicate)
        if len(with_twin):
            number = float(survey.twin_shares[with_twin[0]]) * numbers[place]
            candidates = float(survey.drawn.weights[with_twin].sum())
            number = min(number, candidates, of_facts[place]) if number <= REFUTED * candidates else 0.0
            shares[predicate] = float(number / of_facts[place])
    return shares


def _some_of(names: Sequence[str]) -> str:
    """Return the first MOST_NAMED names, and how many more there are."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _count(number: float) -> str:
    """Return a number of facts as text, with digits after the point only if it is small."""
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"
