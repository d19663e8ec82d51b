"""A model that is calibrated to a population, and the lists that it makes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Triples
from kgcore.calibrated import CalibratedModel
from kgcore.combiners.scorer import CombinedModel
from kgcore.population.calibrate import PopulationFit, fit_population, in_order, lost_share
from kgcore.population.population import Population
from kgcore.population.survey import Survey
from kgcore.population.unknown_facts import UnknownFacts, of_base_rate
from kgcore.prediction.discovery import Discovery, Question
from kgcore.prediction.parts import EachPart, OnPart, one_by_one

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

NOTHING_LOST = (0, 0, 0.0)


@dataclass(frozen=True)
class Calibration:
    """A model that is calibrated to a population.

    population  the candidates
    survey      the evidence about them
    fit         its calibrator. If nothing was stated, it serves the order of a list alone: its base rate is arbitrary
    model       the calibrated model
    true        number of true candidates that the user states; None: nothing was stated
    """

    population: Population
    survey: Survey
    fit: PopulationFit
    model: CalibratedModel
    true: UnknownFacts | None

    @classmethod
    def of(
        cls,
        population: Population,
        survey: Survey,
        models: "Sequence[TrainedModel]",
        true: UnknownFacts | None,
        rng: np.random.Generator,
    ) -> "Calibration":
        """Calibrate a survey to the number of true candidates.

        models  the model of the survey's evidence, and the further models

        Raises FitError if a fit does not converge.
        """
        graph, sizes = population.graph, population.sizes
        nominal = min(0.5, len(survey.facts) / float(sizes.sum()))  # as many as validation knows
        fit = fit_population(survey, true or of_base_rate(population, nominal), sizes, graph.fingerprint(), rng)
        scorer = CombinedModel(survey.combined, models[0], graph, tuple(models[1:]))
        return cls(population, survey, fit, CalibratedModel(scorer, fit.bound, graph), true)

    @property
    def about(self) -> str:
        """Return what the probabilities are about, or why there are none, in a sentence."""
        candidates, facts = int(self.population.sizes.sum()), len(self.survey.facts)
        if self.true is None:
            return (
                f"no probabilities: nothing says how many of the {candidates:,} candidates are true. State which share "
                "of the true facts the graph knows (--completeness 0.8), or which share of the candidates is true "
                "(--base-rate). The order, --fdr and --coverage need neither"
            )
        return (
            f"the probabilities are about {candidates:,} candidates, {self.true.total:,.0f} of them true by the stated "
            f"{self.true.stated}, and are calibrated to these with {facts:,} validation facts"
        )

    def best(self, top: int, above: float = 0.0, predicate: int | None = None) -> Triples:
        """Return the most probable candidates (n, 3) of the survey, all above a limit, from the highest down.

        predicate  that of the candidates; None: any
        """
        rows = in_order(self.survey, self.fit)
        if predicate is not None:
            rows = rows[self.survey.drawn.triples[rows, 1] == predicate]
        rows = rows[:top]
        triples, log_odds = self.survey.drawn.triples[rows], self.survey.log_odds[rows]
        return triples[self.fit.probabilities(log_odds, triples[:, 1]) > above] if above else triples

    def most_probable(
        self,
        question: Question,
        top: int,
        above: float,
        at_least: int,
        on_part: OnPart = lambda done: None,
        each_part: EachPart = one_by_one,
    ) -> tuple[Triples, tuple[int, int, float]]:
        """Return the `top` missing facts with the highest probabilities, all above a limit, and `lost_share`.

        The arguments are those of `Discovery.most_probable`. The best facts of whole predicates are in the survey. The
        answers to a query are searched, and so are those of a predicate of which the survey has too few.
        """
        is_query = question.subject is not None or question.object is not None
        if is_query or not self._has(top, question.predicate):
            search = Discovery(self.model, self.population.domains, at_least)
            return search.most_probable(question, top, above, on_part, each_part).triples, NOTHING_LOST
        triples = self.best(top, above, question.predicate)
        if not len(triples) or self.survey.drawn.in_top.all():
            return triples, NOTHING_LOST
        scores = self.model.trained.score(triples[-1:])
        last = float(self.fit.probabilities(scores, triples[-1:, 1])[0])
        return triples, lost_share(self.survey, self.fit, last)

    def _has(self, top: int, predicate: int | None) -> bool:
        """Return whether the survey has the evidence of as many candidates as a list of `top` needs."""
        drawn = self.survey.drawn
        if predicate is None:
            return int(drawn.in_top.sum()) >= top or bool(drawn.in_top.all())
        rows = int((drawn.in_top & (drawn.triples[:, 1] == predicate)).sum())
        return rows >= top or drawn.lowest[predicate] == -np.inf
