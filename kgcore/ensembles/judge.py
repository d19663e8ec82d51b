"""The probabilities of ensembles and of their members on the test rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Probabilities
from kgcore.calibration.balance import base_rate_weights
from kgcore.config import ClassifyConfig
from kgcore.ensembles.disagreement import Disputed, disagreement, disputed
from kgcore.ensembles.ensemble import Ensemble
from kgcore.evaluation.predictions import Predictions
from kgcore.metrics.classification import accuracy
from kgcore.score_table import ScoreTable


@dataclass(frozen=True)
class Judged:
    """The probabilities and the disagreement on the n test rows.

    predictions   the probabilities by label: `ground_truth.linear` for an ensemble, `ground_truth.NAME` for the member
                  called NAME
    disagreement  label of the ensemble -> (n,) disagreement of its members, in nats
    disputed      label of the ensemble -> its error where the members agree most, and where they disagree most
    """

    predictions: Predictions
    disagreement: dict[str, Floats]
    disputed: dict[str, Disputed]


def judge(
    ensembles: Sequence[Ensemble],
    tables: Sequence[ScoreTable],
    names: Sequence[str],
    base_rate: float,
    config: ClassifyConfig,
) -> Judged:
    """Compute the probabilities of ensembles and of their members on the test rows.

    tables     (m) the score table of each member
    names      (m) the name of each member, for the labels of its probabilities
    base_rate  in (0, 1). If the test split has no labelled negatives, its corruptions are the negatives, weighted to
               this base rate. Otherwise it is not used.

    An ensemble has probabilities but no scores. So the scores of the result are NaN, and it has no per-relation
    thresholds. Raises MismatchError if a table holds the scores of another model than the member's.
    """
    table, test = tables[0], tables[0].measured("test")
    labels, truth, alone = table.labels[test], table.truth[test], table.judged_alone("test")
    predicates = table.triples[test, 1]
    weights = np.ones(len(labels)) if alone else base_rate_weights(labels, base_rate, predicates)
    scores, models = [own.scores[test] for own in tables], [own.model for own in tables]
    probabilities: dict[str, Probabilities] = {}
    apart: dict[str, Floats] = {}
    for ensemble in ensembles:
        members = ensemble.pooling.member_probabilities(scores, models, predicates)
        own = {f"{ensemble.negatives}.{name}": members[:, number] for number, name in enumerate(names)}
        probabilities |= own | {ensemble.label: ensemble.predict(members, predicates)}
        apart[ensemble.label] = disagreement(members, ensemble.pooling.pool.shares)
    predictions = Predictions(
        triples=table.triples[test],
        labels=labels,
        weights=weights,
        scores=np.full(len(labels), np.nan),
        probabilities=probabilities,
        accuracies={label: accuracy(q > config.tau, truth, weights) for label, q in probabilities.items()},
        accuracy_per_relation={},
        relations=[],
        synthetic_negatives=not alone,
        left_out=table.left_out("test"),
        confidences=truth if table.soft("test") else None,
    )
    errors = {label: disputed(own, probabilities[label], truth, weights) for label, own in apart.items()}
    return Judged(predictions, apart, errors)
