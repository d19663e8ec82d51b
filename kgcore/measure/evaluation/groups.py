"""Results of groups of test triples: each relation, what training knows much or little of, and all labelled rows.

Probabilities can be right on average but wrong for every single relation. A model knows less about new and rare
entities.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.measure.metrics.base import Sample, every_metric
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import wilson

if TYPE_CHECKING:
    from kgcore.measure.evaluation.predictions import Predictions

METRICS_OF_GROUPS = ("brier", "ece", "debiased_rmsce", "auroc")
WITH_PREDICATE = {
    2: "train has the predicate with both entities",
    1: "train has the predicate with one of the entities",
    0: "train has the predicate with neither entity",
}


@dataclass(frozen=True)
class RelationReliability:
    """The reliability of every calibrator on one relation.

    predicate    position of the relation in the graph's vocabulary
    triples      number of test triples of the relation
    observed     weighted share of true triples among them; their mean confidence, if they have confidences
    low, high    ends of the 95 % Wilson interval of `observed`, with the effective count
    calibrators  label of the calibrator -> its weighted mean probability, as `predicted`, and its Brier score, as
                 `brier`. If `predicted` is outside the interval, the probabilities of this calibrator are too high or
                 too low for the relation as a whole
    """

    predicate: int
    triples: int
    observed: float
    low: float
    high: float
    calibrators: dict[str, dict[str, float]]


def reliability_by_relation(predictions: "Predictions") -> list[RelationReliability]:
    """Return the reliability of each predicate that occurs in the test triples, in increasing order of its position."""
    results = []
    for predicate in np.unique(predictions.triples[:, 1]).tolist():
        rows = predictions.triples[:, 1] == predicate
        y, w = predictions.truth[rows], predictions.weights[rows]
        fits = {
            label: {"predicted": float(np.average(q[rows], weights=w)), "brier": brier(q[rows], y, w)}
            for label, q in predictions.probabilities.items()
        }
        results.append(RelationReliability(predicate, int(rows.sum()), *_observed(y, w), fits))
    return results


def _observed(y: Probabilities, w: Floats) -> tuple[float, float, float]:
    """Return the weighted share of true triples and its 95 % Wilson interval, with the effective count."""
    observed = np.array([np.average(y, weights=w)])
    low, high = wilson(observed, np.array([w.sum() ** 2 / (w**2).sum()]))
    return float(observed[0]), float(low[0]), float(high[0])


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
    metrics, fits = every_metric(), {}
    for label, q in predictions.probabilities.items():
        tally = Sample(q[rows], y, w, bins, tau).tally()
        values = {name: tally.once(metrics[name].figure) for name in METRICS_OF_GROUPS}
        defined = {metric: value for metric, value in values.items() if np.isfinite(value)}
        fits[label] = {"predicted": float(np.average(q[rows], weights=w)), **defined}
    true = int((predictions.labels[rows] == 1).sum())
    return KnowledgeGroup(name, int(rows.sum()), true, *_observed(y, w), fits)


@dataclass(frozen=True)
class AllRows:
    """Accuracy, Brier score and log loss of all rows, and accuracy of the rows with unseen entities.

    rows    number of all rows
    unseen  number of the rows with an entity that training lacks
    """

    rows: int
    unseen: int
    accuracy: float
    brier: float
    log_loss: float
    unseen_accuracy: float

    @classmethod
    def of(
        cls, known: tuple[Probabilities, Labels], unseen: tuple[Probabilities, Labels], tau: float = 0.5
    ) -> "AllRows":
        """Measure the probabilities and labels (n,) of both kinds of rows together. tau: decision threshold."""
        q, labels = (np.concatenate([known[place], unseen[place]]) for place in (0, 1))
        right = (q > tau) == (labels == 1)
        of_unseen = float(right[len(known[1]) :].mean())
        return cls(len(q), len(unseen[1]), float(right.mean()), brier(q, labels), log_loss(q, labels), of_unseen)

    def figures(self) -> dict[str, float]:
        """Return the figures as metrics, whose names start with `all_rows_`."""
        return {f"all_rows_{name}": float(value) for name, value in vars(self).items()}

    def note(self, label: str) -> str:
        """Return the figures in a sentence. label: the calibrator that answers for the other rows."""
        return (
            f"All {self.rows:,} test rows, {self.unseen:,} with entities that training has not seen included: accuracy "
            f"{self.accuracy:.4f}, Brier score {self.brier:.4f}, log loss {self.log_loss:.3f}. Evidence answers for "
            f"the unseen entities, with accuracy {self.unseen_accuracy:.4f}, and {label} for the others."
        )
