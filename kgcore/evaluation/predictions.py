"""Probabilities and decisions on the test split: the output of classification and the input of evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kgcore.arrays import Bools, Ints, Labels, Probabilities, Scores, Triples, Weights
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.sample import base_rate_weights
from kgcore.config import ClassifyConfig
from kgcore.metrics.classification import RelationThresholds, accuracy, learned_thresholds, median_thresholds
from kgcore.score_table import ScoreTable


@dataclass(frozen=True)
class ThresholdResult:
    """A relation's threshold on the score, and the accuracy of its decisions on the test triples."""

    threshold: float
    accuracy: float


@dataclass(frozen=True)
class RelationDecisions:
    """The decisions of per-relation thresholds about one relation's test triples.

    predicate  number of the relation
    triples    number of its judged triples
    learned    the threshold with the best validation accuracy
    median     the median validation score
    """

    predicate: int
    triples: int
    learned: ThresholdResult
    median: ThresholdResult

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RelationDecisions":
        """Read what `dataclasses.asdict` gives; other keys are ignored."""
        learned, median = (ThresholdResult(**data[rule]) for rule in ("learned", "median"))
        return cls(data["predicate"], data["triples"], learned, median)


@dataclass(frozen=True)
class Predictions:
    """The judged test rows (n) with every calibrator's probabilities and the accuracies of the decisions.

    weights                ones if negatives are labelled; otherwise scaled to the stated base rate
    probabilities          calibrator label -> (n,)
    accuracies             calibrator label -> accuracy of q > tau
    accuracy_per_relation  learned, median -> accuracy of per-relation thresholds
    relations              the decisions of per-relation thresholds, for each predicate of the test rows
    synthetic_negatives    whether the negatives are corruptions
    """

    triples: Triples
    labels: Labels
    weights: Weights
    scores: Scores
    probabilities: dict[str, Probabilities]
    accuracies: dict[str, float]
    accuracy_per_relation: dict[str, float]
    relations: list[RelationDecisions]
    synthetic_negatives: bool

    @property
    def base_rate(self) -> float:
        """Share of positives, by weight."""
        return float(np.average(self.labels, weights=self.weights))

    def notes(self, stated: float) -> list[str]:
        """Notes that a reader of the results needs, given the stated base rate; one sentence each."""
        positives = int(self.labels.sum())
        negatives = len(self.labels) - positives
        if self.synthetic_negatives:
            return [
                f"Measured on {positives:,} test positives and {negatives:,} corruptions of them, without known facts, "
                f"weighted to the stated base rate of {stated:g}: this data set has no labelled negatives."
            ]
        notes = [f"Measured on {positives:,} positives and {negatives:,} labelled negatives of the test split."]
        if abs(self.base_rate - stated) > 0.05:
            notes.append(
                f"The stated base rate is {stated:g}, but {self.base_rate:.2f} of the test split is positive: "
                "on this split, probabilities for the stated base rate (the synthetic ones) look wrong, as they should."
            )
        return notes


def classify(
    table: ScoreTable,
    calibrators: Sequence[BoundCalibrator],
    num_predicates: int,
    base_rate: float,
    config: ClassifyConfig,
) -> Predictions:
    """Probabilities and decisions on the table's test rows (paper, section 5.3).

    If no negatives are labelled, filtered corruptions replace them, weighted to the base rate, both in validation and
    in test. Raises MismatchError if a calibrator belongs to another model.
    """
    test, valid = table.measured("test"), table.measured("valid")
    labels, scores, predicates = table.labels[test], table.scores[test], table.triples[test, 1]

    def weigh(split: str, rows: Bools) -> Weights:
        known = table.labelled_negatives(split)
        return np.ones(int(rows.sum())) if known else base_rate_weights(table.labels[rows], base_rate)

    weights = weigh("test", test)
    probabilities = {c.label: c.predict(scores, table.model, predicates) for c in calibrators}
    fitted_on = (table.triples[valid, 1], table.scores[valid])
    rules = {
        "learned": learned_thresholds(*fitted_on, table.labels[valid], num_predicates, weigh("valid", valid)),
        "median": median_thresholds(*fitted_on, num_predicates, weigh("valid", valid)),
    }
    decisions = {name: rule.decide(predicates, scores) for name, rule in rules.items()}
    return Predictions(
        triples=table.triples[test],
        labels=labels,
        weights=weights,
        scores=scores,
        probabilities=probabilities,
        accuracies={label: accuracy(q > config.tau, labels, weights) for label, q in probabilities.items()},
        accuracy_per_relation={name: accuracy(decided, labels, weights) for name, decided in decisions.items()},
        relations=_by_relation(predicates, labels, weights, rules, decisions),
        synthetic_negatives=not table.labelled_negatives("test"),
    )


def _by_relation(
    predicates: Ints,
    labels: Labels,
    weights: Weights,
    rules: Mapping[str, RelationThresholds],
    decisions: Mapping[str, Bools],
) -> list[RelationDecisions]:
    """The thresholds of the rules, and the accuracy of their decisions (n,), for each predicate of the test rows."""
    relations = []
    for predicate in np.unique(predicates).tolist():
        own = predicates == predicate
        results = {
            name: ThresholdResult(
                float(rules[name].thresholds[predicate]), accuracy(decided[own], labels[own], weights[own])
            )
            for name, decided in decisions.items()
        }
        relations.append(RelationDecisions(predicate, int(own.sum()), results["learned"], results["median"]))
    return relations
