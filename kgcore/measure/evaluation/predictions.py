"""Probabilities and decisions on the test split: the output of classification and the input of evaluation."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kgcore.arrays import Bools, Floats, Ints, Labels, Probabilities, Scores, Triples, Weights
from kgcore.base_rate import ASSUMED, BaseRate
from kgcore.calibrate.base import Uncalibrated
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.sample import base_rate_weights, weights_at
from kgcore.config import ClassifyConfig
from kgcore.errors import MismatchError
from kgcore.measure.metrics.classification import (
    RelationDecisions,
    ThresholdResult,
    accuracy,
    learned_thresholds,
    median_thresholds,
)
from kgcore.scores.table import ScoreTable, TableEvidence

UNCALIBRATED_RAW = "uncalibrated_raw"
FAR = 3  # a mean probability that differs from the base rate by this factor is no chance
EXAMPLES = 10  # triples that show what probabilities look like


@dataclass(frozen=True)
class Example:
    """The position of a test row, and the 95 % confidence interval of its probability, in [0, 1]."""

    row: int
    low: float
    high: float


@dataclass(frozen=True)
class Predictions:
    """The n test rows, with the probabilities of every calibrator and the accuracy of the decisions.

    weights                (n,) ones if some negatives are labelled; otherwise weights for the base rate
    probabilities          label of the calibrator -> (n,); UNCALIBRATED_RAW, if scores are normalised by a cohort: the
                           sigmoid of the raw score, which is the paper's uncalibrated probability
    accuracies             label of the calibrator -> accuracy of the decision q > tau
    accuracy_per_relation  `learned` or `median` -> accuracy with that kind of threshold for each relation
    relations              the results of the per-relation thresholds, one entry for each predicate of the test rows
    synthetic_negatives    whether the negatives are corruptions
    confidences            (n,) in [0, 1], if the test rows have confidences; None: the labels say what is true
    left_out               number of test positives that are not among the rows, because all corruptions of their
                           relation are known facts
    examples               label of a fitted calibrator -> rows from sure to doubtful
    """

    triples: Triples
    labels: Labels
    weights: Weights
    scores: Scores
    probabilities: dict[str, Probabilities]
    accuracies: dict[str, float] = field(default_factory=dict)
    accuracy_per_relation: dict[str, float] = field(default_factory=dict)
    relations: list[RelationDecisions] = field(default_factory=list)
    synthetic_negatives: bool = False
    left_out: int = 0
    confidences: Probabilities | None = None
    examples: dict[str, list[Example]] = field(default_factory=dict)

    @property
    def truth(self) -> Probabilities:
        """The confidences (n,) of the rows, or their labels: what the probabilities are measured by."""
        return self.labels if self.confidences is None else self.confidences

    @property
    def base_rate(self) -> float:
        """Return the share of positives, or the mean confidence, by weight."""
        return float(np.average(self.truth, weights=self.weights))

    def rows_fingerprint(self) -> str:
        """Return the sha256 of what is measured: triples, truth and weights. Metrics on equal rows can be compared."""
        hashed = hashlib.sha256()
        for column in (self.triples, self.truth, self.weights):
            hashed.update(np.ascontiguousarray(column).tobytes())
        return hashed.hexdigest()

    def far_from_base_rate(self, negatives: str) -> list[str]:
        """Return a sentence for each calibrator whose mean probability is far from the base rate of the rows.

        negatives  the kind of negatives that the calibrators are fitted to, at this base rate
        """
        fitted = {label: q for label, q in self.probabilities.items() if label.startswith(f"{negatives}.")}
        means = {label: float(np.average(q, weights=self.weights)) for label, q in fitted.items()}
        return [
            f"The mean probability of {label.replace('_', ' ').replace('.', ' ')} is {mean:.2g}, but the base rate is "
            f"{self.base_rate:.2g}: its fit cannot reach it. Take another calibrator, such as beta."
            for label, mean in means.items()
            if not self.base_rate / FAR <= mean <= self.base_rate * FAR
        ]

    def cautions(self, labelled_false: int = 0) -> list[str]:
        """Return the sentences of `notes` that change a decision. `labelled_false` is that of `notes`."""
        if not self.synthetic_negatives:
            return []
        return [*self.far_from_base_rate("synthetic"), _about_mistakes(labelled_false)]

    def notes(self, rate: BaseRate, labelled_false: int = 0, calibrated: bool = True) -> list[str]:
        """Return sentences that say how the results were measured, and what they say about real mistakes.

        rate            base rate of synthetic calibrators
        labelled_false  number of validation triples that are labelled false
        calibrated      whether the calibration error is within the tolerance
        """
        positives = int(self.labels.sum())
        negatives = len(self.labels) - positives
        if self.synthetic_negatives:
            notes = [
                f"Measured on {positives:,} test positives and {negatives:,} corruptions of them, without known facts, "
                f"weighted to the {rate.origin} base rate of {rate.value:.4g} in each relation, because test has no "
                "labelled negatives.",
                *(_BY_CONSTRUCTION if calibrated else ()),
                *self.cautions(labelled_false),
            ]
            if self.left_out:
                notes.append(
                    f"{self.left_out:,} test positives are not measured: every corruption of their relations is a "
                    "known fact."
                )
        elif self.confidences is not None:
            notes = [*self._about_confidences(), *self._about_base_rate(rate)]
        else:
            notes = [f"Measured on {positives:,} positives and {negatives:,} labelled negatives of the test split."]
            notes += self._about_base_rate(rate)
        if rate.origin == ASSUMED:
            notes.append(
                f"The base rate of synthetic calibrators, {rate.value:g}, is assumed: nobody stated or estimated it. "
                "If another share of your candidates is true, their probabilities are wrong: state the share with "
                "--base-rate."
            )
        return notes

    def _about_confidences(self) -> list[str]:
        """Return sentences that say what results against confidences mean."""
        notes = [
            f"Measured on {len(self.truth):,} test triples with confidences, whose mean is {self.base_rate:.4g}. A "
            "probability of a ground truth calibrator is the expected confidence of a stored triple. The Brier score "
            "is the mean squared error (q - c)^2, and the log loss is the cross-entropy. In all other metrics a triple "
            "with confidence c counts as c of a true triple and 1 - c of a false one, so accuracy and AUROC stay below "
            "1 even for perfect probabilities.",
        ]
        if "constant" in self.probabilities:
            notes.append(
                "The rows `constant` and `constant by relation` are the mean confidences of the validation triples: a "
                "useful model has a lower Brier score."
            )
        return notes

    def _about_base_rate(self, rate: BaseRate) -> list[str]:
        """Return a sentence if the base rate of synthetic calibrators is far from that of the test rows."""
        if abs(self.base_rate - rate.value) <= 0.05:
            return []
        share = "share of positives in" if self.confidences is None else "mean confidence of"
        return [
            f"The {rate.origin} base rate is {rate.value:.4g}, but the {share} the test split is "
            f"{self.base_rate:.2f}: on this split, synthetic calibrators look miscalibrated, which is "
            f"expected, because their probabilities are for the {rate.origin} base rate."
        ]


_BY_CONSTRUCTION = (
    "A small calibration error here is by construction: the test negatives are corruptions that were drawn in the same "
    "way as those that the synthetic calibrators are fitted to. It does not show that the probabilities are right for "
    "real mistakes.",
)


def _about_mistakes(labelled_false: int) -> str:
    """Return a sentence that says what evidence about real mistakes there is.

    labelled_false  number of validation triples that are labelled false
    """
    if not labelled_false:
        return (
            "Evidence about real mistakes: none, because no triple is labelled false. To get some, label a random "
            "sample of your candidates, and run `kgcal recalibrate --labels FILE`."
        )
    return (
        f"Evidence about real mistakes: {labelled_false:,} validation triples that are labelled false. The ground "
        "truth calibrators are fitted to them; the metrics here are not measured on them. To measure, promote a "
        "calibrator, label a random sample of other candidates, and run `kgcal watch --labels FILE --dataset NAME`."
    )


def classify(
    table: ScoreTable,
    calibrators: Sequence[Calibrated],
    num_predicates: int,
    base_rate: float,
    config: ClassifyConfig,
    evidence: TableEvidence | None = None,
    rng: np.random.Generator | None = None,
) -> Predictions:
    """Compute probabilities and decisions on the test rows of the table (paper, section 5.3).

    rng  draws the examples; None: no examples are drawn

    If a split has no labelled negatives, its corruptions are the negatives, weighted to the base rate in each relation.
    This holds for the test rows and for the validation rows that the per-relation thresholds are learned on. Labelled
    validation rows are weighted to `table.labelled_base_rate`, if the table has one. In a split with confidences, only
    the stored rows count, each once. Raises MismatchError if a calibrator belongs to another model.
    """
    test, valid = table.measured("test"), table.measured("valid")
    truth, scores, predicates = table.truth[test], table.scores[test], table.triples[test, 1]

    def weigh(split: str, rows: Bools) -> Weights:
        if not table.judged_alone(split):
            return base_rate_weights(table.labels[rows], base_rate, table.triples[rows, 1])
        return weights_at(table.labels[rows], table.labelled_share if split == "valid" else None)

    weights = weigh("test", test)
    probabilities = {} if table.raw is None else {UNCALIBRATED_RAW: Uncalibrated().calibrate(table.raw[test])}
    found = {c.label: _scores(c, table, test, evidence) for c in calibrators}
    models = {c.label: c.model if c.combined else table.model for c in calibrators}
    probabilities |= {c.label: c.predict(found[c.label], models[c.label], predicates) for c in calibrators}
    order = None if rng is None else np.argsort(rng.exponential(size=len(weights)) / weights)
    fitted_on = (table.triples[valid, 1], table.scores[valid])
    rules = {
        "learned": learned_thresholds(*fitted_on, table.truth[valid], num_predicates, weigh("valid", valid)),
        "median": median_thresholds(*fitted_on, num_predicates, weigh("valid", valid)),
    }
    decisions = {name: scores > rule[predicates] for name, rule in rules.items()}
    return Predictions(
        triples=table.triples[test],
        labels=table.labels[test],
        weights=weights,
        scores=scores,
        probabilities=probabilities,
        accuracies={label: accuracy(q > config.tau, truth, weights) for label, q in probabilities.items()},
        accuracy_per_relation={name: accuracy(decided, truth, weights) for name, decided in decisions.items()},
        relations=_by_relation(predicates, truth, weights, rules, decisions),
        synthetic_negatives=not table.judged_alone("test"),
        left_out=table.left_out("test"),
        confidences=truth if table.soft("test") else None,
        examples={
            c.label: _examples(c, found[c.label], probabilities[c.label], predicates, order)
            for c in calibrators
            if c.support and order is not None
        },
    )


def _examples(bound: Calibrated, scores: Scores, q: Probabilities, predicates: Ints, drawn: Ints) -> list[Example]:
    """Return EXAMPLES rows, the most probable first: near evenly spaced probabilities from the highest to its half.

    drawn  (n,) the rows in a random order. Of the rows that are near, the first one is taken
    """
    levels, step = np.linspace(q.max(), q.max() / 2, EXAMPLES, retstep=True)
    rows: list[int] = []
    for level in levels[: len(drawn)]:
        away = np.abs(q[drawn] - level)
        place = int(np.argmax(away <= max(away.min(), abs(step) / 2)))
        rows.append(int(drawn[place]))
        drawn = np.delete(drawn, place)
    rows.sort(key=lambda row: -q[row])
    low, high = bound.interval(scores[rows], q[rows], predicates[rows])
    return [Example(*values) for values in zip(rows, low.tolist(), high.tolist(), strict=True)]


def _scores(bound: Calibrated, table: ScoreTable, rows: Bools, evidence: TableEvidence | None) -> Scores:
    """Return what a calibrator maps to probabilities (n,), for the rows of a score table that a mask chooses.

    evidence  of these rows; required if the calibrator sees evidence

    Raises MismatchError if the calibrator belongs to another model, or if a row has no evidence.
    """
    combined = bound.combined
    if combined is None:
        return table.scores[rows]
    if evidence is None or combined.models[0] != table.model:
        raise MismatchError(
            f"the calibrator {bound.label} needs the evidence of model {combined.models[0][:12]}, but the scores come "
            f"from model {table.model[:12]}"
        )
    return combined.scores(evidence.at(rows), table.triples[rows, 1])


def _by_relation(
    predicates: Ints,
    labels: Labels,
    weights: Weights,
    rules: Mapping[str, Floats],
    decisions: Mapping[str, Bools],
) -> list[RelationDecisions]:
    """Return the threshold and the accuracy of each rule, for each predicate of the test rows.

    rules      name of the rule, `learned` or `median` -> its thresholds
    decisions  name of the rule -> its decisions on the test rows (n,)
    """
    relations = []
    for predicate in np.unique(predicates).tolist():
        rows = predicates == predicate
        results = {
            name: ThresholdResult(float(rules[name][predicate]), accuracy(decided[rows], labels[rows], weights[rows]))
            for name, decided in decisions.items()
        }
        relations.append(RelationDecisions(predicate, int(rows.sum()), results["learned"], results["median"]))
    return relations
