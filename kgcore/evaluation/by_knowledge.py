"""Reliability by what training knows about a triple, because a model knows less about new and rare entities."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Ints, Triples
from kgcore.graph import KnowledgeGraph
from kgcore.metrics.base import Sample
from kgcore.metrics.catalogue import every_metric
from kgcore.metrics.reliability import wilson

if TYPE_CHECKING:
    from kgcore.evaluation.predictions import Predictions

METRICS_OF_GROUPS = ("brier", "ece", "debiased_rmsce", "auroc")
WITH_PREDICATE = {
    2: "train has the predicate with both entities",
    1: "train has the predicate with one of the entities",
    0: "train has the predicate with neither entity",
}


@dataclass(frozen=True)
class KnowledgeGroup:
    """The reliability of every calibrator on a group of test triples.

    name         what training knows about the triples
    triples      number of test triples in the group
    true         number of them that are true
    observed     weighted share of true triples among them; their mean confidence, if they have confidences
    low, high    ends of the 95 % Wilson interval of `observed`, with the effective count
    calibrators  label of the calibrator -> its weighted mean probability, as `predicted`, and METRICS_OF_GROUPS; one
                 that is not defined on the group is missing
    """

    name: str
    triples: int
    true: int
    observed: float
    low: float
    high: float
    calibrators: dict[str, dict[str, float]]


def reliability_by_knowledge(
    predictions: "Predictions", graph: KnowledgeGraph, bins: int, tau: float
) -> list[KnowledgeGroup]:
    """Return the reliability of groups of test triples, by whether train has the predicate with their entities, and by
    the number of training facts of the rarer entity.

    graph  only train is used
    bins   number of bins of the calibration errors
    tau    decision threshold of the metrics
    """
    triples, train = predictions.triples, graph.train.positives
    groups = [*_by_predicate(triples, train, len(graph.predicates))]
    groups += _by_degree(triples, train, len(graph.entities), predictions.labels == 1)
    return [_group(predictions, name, rows, bins, tau) for name, rows in groups if rows.any()]


def _by_predicate(triples: Triples, train: Triples, predicates: int) -> Iterator[tuple[str, Bools]]:
    """Yield name and rows (n,) of the groups by how many of the entities have the predicate in train, on their side."""
    count = sum(
        np.isin(triples[:, end] * predicates + triples[:, 1], train[:, end] * predicates + train[:, 1]).astype(np.int64)
        for end in (0, 2)
    )
    for number, name in WITH_PREDICATE.items():
        yield name, np.asarray(count == number)


def _by_degree(triples: Triples, train: Triples, entities: int, true: Bools) -> Iterator[tuple[str, Bools]]:
    """Yield the name and the rows (n,) of three groups by degree, each with a third of the true triples."""
    degrees = np.bincount(train[:, [0, 2]].reshape(-1), minlength=entities)
    rarer: Ints = degrees[triples[:, [0, 2]]].min(axis=1)
    ends = np.unique(np.quantile(rarer[true], (1 / 3, 2 / 3), method="inverted_cdf")).astype(np.int64)
    lows, highs = [0, *(ends + 1).tolist()], [*ends.tolist(), int(rarer.max())]
    for low, high in zip(lows, highs, strict=True):
        facts = f"at most {high:,}" if low == 0 else f"{low:,} to {high:,}" if low < high else f"{low:,}"
        yield f"the rarer entity has {facts} training facts", (rarer >= low) & (rarer <= high)


def _group(predictions: "Predictions", name: str, rows: Bools, bins: int, tau: float) -> KnowledgeGroup:
    y, w = predictions.truth[rows], predictions.weights[rows]
    observed = np.array([np.average(y, weights=w)])
    low, high = wilson(observed, np.array([w.sum() ** 2 / (w**2).sum()]))
    metrics, fits = every_metric(), {}
    for label, q in predictions.probabilities.items():
        tally = Sample(q[rows], y, w, bins, tau).tally()
        values = {name: tally.once(metrics[name].figure) for name in METRICS_OF_GROUPS}
        defined = {metric: value for metric, value in values.items() if np.isfinite(value)}
        fits[label] = {"predicted": float(np.average(q[rows], weights=w)), **defined}
    true = int((predictions.labels[rows] == 1).sum())
    return KnowledgeGroup(name, int(rows.sum()), true, float(observed[0]), float(low[0]), float(high[0]), fits)
