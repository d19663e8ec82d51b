"""The metric that a search optimises, measured on the validation split only."""

from collections.abc import Mapping

import numpy as np

from kgcore.config import CorruptConfig
from kgcore.config.choices import OBJECTIVES
from kgcore.errors import FitError, InputError
from kgcore.graph import KnowledgeGraph
from kgcore.metrics.classification import accuracy
from kgcore.metrics.proper import brier, log_loss
from kgcore.metrics.ranks import rank_metrics
from kgcore.models.trained import TrainedModel
from kgcore.ranking import filtered_ranks
from kgcore.tuning.held_out import held_out

RANKED = 500  # the MRR is measured on at most this many validation positives


class Objective:
    """The measurement of a model on the validation split. A search optimises the metric with the name `metric`.

    brier, log_loss  scores of cross-fitted isotonic probabilities q. A calibrator that is fitted on one half of the
                     validation triples predicts the other half
    accuracy         accuracy of the decision q > 0.5 with the same probabilities
    mrr              filtered mean reciprocal rank of a sample of the positives; measured only if `metric` is mrr

    Selection by cross-fitting: Stone, "Cross-Validatory Choice and Assessment of Statistical Predictions", 1974.
    """

    def __init__(
        self, graph: KnowledgeGraph, metric: str, config: CorruptConfig, base_rate: float, rng: np.random.Generator
    ) -> None:
        """Draw the two halves of the validation triples and the sample of positives for the MRR.

        config, base_rate  arguments of `held_out`, used if the graph has no labelled negatives
        rng                random generator of the halves and the sample

        Raises InputError if the metric is unknown, or for the reasons of `held_out`.
        """
        if metric not in OBJECTIVES:
            raise InputError(f"unknown metric {metric!r}: the known ones are {', '.join(OBJECTIVES)}")
        self.metric, self.held_out, self._known = metric, held_out(graph, config, base_rate, rng), graph.known
        positives = graph.valid.positives
        self._ranked = rng.permutation(positives)[:RANKED]

    def measure(self, trained: TrainedModel) -> dict[str, float]:
        """Return metric name -> value for the model. Raises FitError if a score of the model is not finite."""
        held = self.held_out
        scores = trained.score(held.triples)
        if not np.isfinite(scores).all():
            raise FitError("some scores of the validation triples are not finite numbers: lower the learning rate")
        q, judged = held.cross_fitted(scores), (held.truth, held.weights)
        figures = {"brier": brier(q, *judged), "log_loss": log_loss(q, *judged), "accuracy": accuracy(q > 0.5, *judged)}
        if self.metric == "mrr":
            figures["mrr"] = rank_metrics(filtered_ranks(trained, self._ranked, self._known))["mrr"]
        return figures

    def value(self, figures: Mapping[str, float]) -> float:
        """Return the value of the metric that the search optimises."""
        return figures[self.metric]
