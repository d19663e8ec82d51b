"""What ensembles and their members make of the test rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Floats, Probabilities
from kgcore.calibration.sample import base_rate_weights
from kgcore.config import ClassifyConfig
from kgcore.ensembles.disagreement import Disputed, disagreement, disputed
from kgcore.ensembles.ensemble import Ensemble
from kgcore.evaluation.predictions import Predictions
from kgcore.metrics.classification import accuracy
from kgcore.score_table import ScoreTable


@dataclass(frozen=True)
class Judged:
    """The test rows (n), judged by ensembles and their members.

    predictions   probabilities by label: `ground_truth.linear` of a pool, `ground_truth.NAME` of a member
    disagreement  label of an ensemble -> (n,) how far its members are apart, in nats
    disputed      label of an ensemble -> what that says about its error
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
    """Probabilities and disagreement on the test rows of the members' tables, whose names (m) the labels have.

    Where no negatives are labelled, corruptions stand for them, weighted to the base rate. Thresholds per relation are
    no matter of ensembles, which have probabilities and no score (NaN). Raises MismatchError for another model's table.
    """
    table, test = tables[0], tables[0].measured("test")
    labels, labelled = table.labels[test], table.labelled_negatives("test")
    weights = np.ones(len(labels)) if labelled else base_rate_weights(labels, base_rate)
    scores, models = [own.scores[test] for own in tables], [own.model for own in tables]
    predicates = table.triples[test, 1]
    probabilities: dict[str, Probabilities] = {}
    apart: dict[str, Floats] = {}
    for ensemble in ensembles:
        members = ensemble.member_probabilities(scores, models, predicates)
        own = {f"{ensemble.negatives}.{name}": members[:, number] for number, name in enumerate(names)}
        probabilities |= own | {ensemble.label: ensemble.predict(members, predicates)}
        apart[ensemble.label] = disagreement(members, ensemble.pool.shares)
    predictions = Predictions(
        triples=table.triples[test],
        labels=labels,
        weights=weights,
        scores=np.full(len(labels), np.nan),
        probabilities=probabilities,
        accuracies={label: accuracy(q > config.tau, labels, weights) for label, q in probabilities.items()},
        accuracy_per_relation={},
        relations=[],
        synthetic_negatives=not labelled,
    )
    told = {label: disputed(own, probabilities[label], labels, weights) for label, own in apart.items()}
    return Judged(predictions, apart, told)
