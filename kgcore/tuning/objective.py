"""The metric that a search optimises, measured on the validation split only."""

from collections.abc import Mapping

import numpy as np

from kgcore.config import CorruptConfig
from kgcore.config.choices import ALL, GAIN, MISSING_FACTS, OBJECTIVES, POPULATIONS
from kgcore.errors import FitError, InputError
from kgcore.graph import KnowledgeGraph
from kgcore.metrics.classification import accuracy
from kgcore.metrics.proper import brier, log_loss
from kgcore.models.trained import TrainedModel
from kgcore.tuning.gains import AnswerRanks, MissingFacts, brier_gain
from kgcore.tuning.held_out import held_out


class Objective:
    """The measurement of a model on the validation split. A search optimises the metric with the name `metric`.

    brier, log_loss  scores of cross-fitted isotonic probabilities q. A calibrator that is fitted on one half of the
                     validation triples predicts the other half
    accuracy         accuracy of the decision q > 0.5 with the same probabilities
    mrr              filtered mean reciprocal rank of a sample of the positives
    gain             mean gain over the populations that the model is judged on: see kgcore/tuning/gains.py

    The last two, and the gain of each population, are measured only if `metric` is one of them.

    Selection by cross-fitting: Stone, "Cross-Validatory Choice and Assessment of Statistical Predictions", 1974.
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        metric: str,
        config: CorruptConfig,
        base_rate: float,
        rng: np.random.Generator,
        judged_on: str = ALL,
    ) -> None:
        """Draw the two halves of the validation triples, the positives that are ranked, and missing facts.

        config, base_rate  arguments of `held_out`, used if the graph has no labelled negatives
        rng                random generator of the draws
        judged_on          one of POPULATIONS whose gain counts alone; ALL: the mean counts. Triples with confidences
                           are judged on negatives only: no fact is certain

        Raises InputError if the metric is unknown, or for the reasons of `held_out`.
        """
        if metric not in OBJECTIVES:
            raise InputError(f"unknown metric {metric!r}: the known ones are {', '.join(OBJECTIVES)}")
        self.metric, self.held_out = metric, held_out(graph, config, base_rate, rng)
        soft = self.held_out.confidences is not None
        self._judged_on = POPULATIONS[:1] if soft else POPULATIONS if judged_on == ALL else (judged_on,)
        self._asked: list[AnswerRanks | MissingFacts] = [AnswerRanks.of(graph, rng)] if metric in ("mrr", GAIN) else []
        missing = MissingFacts.of(graph, rng) if metric == GAIN and MISSING_FACTS in self._judged_on else None
        if missing:
            self._asked.append(missing)
        elif self._judged_on == (MISSING_FACTS,):
            raise InputError(f"the graph {graph.name} has too few missing or validation facts to judge models on")

    def measure(self, trained: TrainedModel) -> dict[str, float]:
        """Return metric name -> value for the model. Raises FitError if a score of the model is not finite."""
        held = self.held_out
        scores = trained.score(held.triples)
        if not np.isfinite(scores).all():
            raise FitError("some scores of the validation triples are not finite numbers: lower the learning rate")
        q, judged = held.cross_fitted(scores), (held.truth, held.weights)
        figures = {"brier": brier(q, *judged), "log_loss": log_loss(q, *judged), "accuracy": accuracy(q > 0.5, *judged)}
        for population in self._asked:
            figures |= population.figures(trained)
        if self.metric == GAIN:
            figures["negatives"] = brier_gain(q, *judged)
            figures[GAIN] = float(np.mean([figures[name] for name in self._judged_on if name in figures]))
        return figures

    def value(self, figures: Mapping[str, float]) -> float:
        """Return the value of the metric that the search optimises."""
        return figures[self.metric]
