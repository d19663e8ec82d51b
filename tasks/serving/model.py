"""The model that the server asks: the champion, loaded anew when it changes."""

import logging
from dataclasses import dataclass
from functools import cached_property

from kgcore.calibration.sample import CalibrationSample
from kgcore.config import ExplainConfig, PredictConfig
from kgcore.errors import KgcalError, first_line
from kgcore.prediction.answers import Answers, table_of
from kgcore.prediction.explanation import Explainer
from tasks.jobs.calibrated_model import Ask, FoundModel, find_calibrated_model, locate
from tasks.jobs.calibration_sample import counted_sample
from tasks.serving.follow import Followed
from tasks.serving.names import Names

MOST_EXPLAINERS = 8  # kept at a time, one for each base rate
log = logging.getLogger("kgcal")


@dataclass(frozen=True)
class Answerer:
    """A loaded model, and what answers questions with it.

    found       the model, as it is stored
    answers     the model at the base rate of its calibrator, with the default decisions
    sample      the sample that the calibrator was fitted on; None if its runs no longer exist
    entities    the completion of entity names
    predicates  the completion of predicate names
    """

    found: FoundModel
    answers: Answers
    sample: CalibrationSample | None
    entities: Names
    predicates: Names

    @property
    def uri(self) -> str:
        """Return the URI of the model."""
        return self.found.uri

    def explainer(self, base_rate: float | None) -> Explainer:
        """Return the explainer for a base rate; None: the base rate of the calibrator.

        Some explainers are kept, because the first explanation of each one makes tables.
        """
        kept = self._explainers.get(base_rate)
        if kept is None:
            model = self.found.model if base_rate is None else self.found.model.at(base_rate)
            kept = Explainer(model, self.sample, ExplainConfig())
            if len(self._explainers) >= MOST_EXPLAINERS:
                self._explainers.clear()
            self._explainers[base_rate] = kept
        return kept

    @cached_property
    def _explainers(self) -> dict[float | None, Explainer]:
        return {}


class Served(Followed[Answerer]):
    """The calibrated model of a server."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        super().__init__()

    def _moved(self) -> bool:
        return locate(self._ask) != self.current.found.located

    def _load(self) -> Answerer:
        found, config = find_calibrated_model(self._ask), PredictConfig()
        graph, answers = found.model.graph, Answers(found.model, config.decides_at, config.at_least)
        answers.table(table_of([(graph.entities[0], graph.predicates[0], graph.entities[0])]))  # fills its caches
        if found.model.answers_unseen:
            answers.table(table_of([(graph.entities[0], graph.predicates[0], f"{graph.entities[0]} ")]))
        try:
            sample = counted_sample(found.model_id, found.model)
        except KgcalError as error:
            log.warning("explanations have no calibration triples: %s", first_line(error))
            sample = None
        return Answerer(found, answers, sample, Names(graph.entities), Names(graph.predicates))
