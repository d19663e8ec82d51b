"""Fit ensembles: calibrate the members, fit the pool to cross-fitted probabilities, and calibrate its output."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import (
    Floats,
    Ints,
    Labels,
    Probabilities,
    Weights,
    as_probabilities,
    as_truth,
    draw_folds,
    same_length,
)
from kgcore.calibrate.calibrated import Calibrated
from kgcore.calibrate.fit import Basis, bind, calibration_bases
from kgcore.calibrate.sample import CalibrationSample, base_rate_weights, scaled_weights
from kgcore.calibrate.validation import cross_fitted, row_groups
from kgcore.config import CalibrateConfig, ClassifyConfig, CorruptConfig, EnsembleConfig
from kgcore.errors import InputError, MismatchError
from kgcore.measure.evaluation.predictions import Predictions
from kgcore.measure.metrics.classification import accuracy
from kgcore.measure.metrics.proper import brier
from kgcore.measure.report.ensemble_summary import Disputed
from kgcore.registries import CALIBRATORS, POOLS
from kgcore.scores.table import ScoreTable
from kgcore.wings.ensembles.ensemble import Pooling, pooling_of


def fit_ensembles(
    tables: Sequence[ScoreTable],
    source: Ints,
    corrupt: CorruptConfig,
    calibrate: CalibrateConfig,
    config: EnsembleConfig,
    rng: np.random.Generator,
) -> list[Calibrated]:
    """Fit every pool of the configuration on each kind of negatives.

    tables     (m) the score table of each member, all of the same rows
    source     (c,) for each validation corruption, in the order of the table: the index, from 0, of the validation
               positive that it was made from
    corrupt    the settings with which the corruptions were drawn; a member on synthetic negatives stores them
    calibrate  the base rate, and whether corruptions are weighted to it
    rng        random generator that draws the folds

    A member that overfits would get too much weight if the pool were fitted to rows that the member was calibrated on.
    So the validation rows are split into folds, with a positive and its corruptions in the same fold. The probability
    of each row comes from a calibrator fitted on the other folds (stacking: Wolpert 1992; van der Laan et al. 2007).
    The pool and its calibrator are fitted to these probabilities. The members of the returned ensembles are calibrated
    on all validation rows. An ensemble is a calibrated thing whose scorer is a `Pooling`.

    A pool cannot correct a probability of 0 or 1. So the probabilities of the members are clipped to the range that the
    sample supports: see `bounds`.

    Raises InputError for fewer than two tables or for two tables of the same model, MismatchError if the tables have
    different rows or `source` does not fit them, FitError if a fit does not converge.
    """
    check_same_rows(tables)
    bases = [calibration_bases(table, calibrate, corrupt) for table in tables]
    groups = row_groups(tables[0], source, calibrate.weighted)
    ensembles: list[Calibrated] = []
    for negatives in sorted(bases[0]):
        of_members = [of_kinds[negatives] for of_kinds in bases]
        ensembles += _fit_pools(tables, of_members, groups[negatives], config, rng)
    return ensembles


def check_same_rows(tables: Sequence[ScoreTable]) -> None:
    """Raise InputError for fewer than two tables or two tables of one model, MismatchError if their rows differ."""
    if len(tables) < 2:
        raise InputError(f"an ensemble needs at least two members: {len(tables)} given")
    first, models = tables[0], [table.model for table in tables]
    if len(set(models)) < len(models):
        raise InputError("two members of the ensemble are the same model: all models must differ")
    for number, table in enumerate(tables[1:], start=2):
        if table.dataset != first.dataset:
            raise MismatchError(
                f"member {number} of the ensemble has scores of another graph than member 1: "
                "all members need the same graph"
            )
        names = ("triples", "split", "origin", "weights")
        if not all(np.array_equal(getattr(table, name), getattr(first, name)) for name in names):
            raise MismatchError(
                f"member {number} of the ensemble was scored on other rows than member 1: "
                "all members need the same corruptions"
            )


def _fit_pools(
    tables: Sequence[ScoreTable], bases: Sequence[Basis], groups: Ints, config: EnsembleConfig, rng: np.random.Generator
) -> list[Calibrated]:
    """Fit every pool of the configuration on one kind of negatives. bases: (m) what each member is fitted to."""
    name, first = config.member_calibrator, bases[0]
    kind, labels, weights = CALIBRATORS.get(name), first.sample.labels, first.sample.weights
    fold = draw_folds(groups, labels, config.folds, rng)
    low, high = bounds(first.sample)
    held_out = np.stack([cross_fitted(kind, basis.sample, fold) for basis in bases], axis=1).clip(low, high)
    members = tuple(
        bind(basis.terms, name, kind().fit_sample(basis.sample), table.model)
        for table, basis in zip(tables, bases, strict=True)
    )
    ensembles = []
    for pool_name in config.pools:
        pool = POOLS.get(pool_name).fit(held_out, labels, weights)
        pooled = first.scored(pool.log_odds(held_out))
        recalibrator = CALIBRATORS.get(config.recalibrator)().fit_sample(pooled.sample)
        pooling = Pooling(members, low, high, pool_name, pool)
        ensembles.append(pooled.bind(config.recalibrator, recalibrator, pooling))
    return ensembles


def bounds(sample: CalibrationSample) -> tuple[float, float]:
    """Return the lowest and the highest probability that the members may give to the pool, at the sample's base rate.

    No sample supports a likelihood ratio below 1 / (N+ + 2) or above N- + 2: N+ positives cannot show that a score is
    rarer among positives than that, and N- negatives not that it is rarer among negatives. At the base rate alpha, a
    likelihood ratio l is the probability l alpha / (l alpha + 1 - alpha).
    """
    negatives, positives = sample.sizes
    odds = sample.base_rate / (1 - sample.base_rate)
    low, high = odds / (positives + 2), odds * (negatives + 2)
    return low / (1 + low), high / (1 + high)


@dataclass(frozen=True)
class JudgedEnsembles:
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
    ensembles: Sequence[Calibrated],
    tables: Sequence[ScoreTable],
    names: Sequence[str],
    base_rate: float,
    config: ClassifyConfig,
) -> JudgedEnsembles:
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
        pooling = pooling_of(ensemble)
        members = pooling.member_probabilities(scores, models, predicates)
        of_members = {f"{ensemble.negatives}.{name}": members[:, number] for number, name in enumerate(names)}
        pooled = ensemble.predict(pooling.log_odds(members), ensemble.model, predicates)
        probabilities |= of_members | {ensemble.label: pooled}
        apart[ensemble.label] = disagreement(members, pooling.pool.shares)
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
    return JudgedEnsembles(predictions, apart, errors)


def disagreement(members: Floats, shares: Floats) -> Floats:
    """Return the disagreement of the members about each triple (n,), in nats, in [0, log 2].

    It is the mutual information between the label of the triple and the random choice of a member:

        I = H(sum_j w_j q_j) - sum_j w_j H(q_j),  H(q) = - q log q - (1 - q) log(1 - q).

    members  (n, m) probabilities q in [0, 1]
    shares   (m,) w, at least 0, sum 1: the probability with which each member is chosen

    The first term is the total uncertainty of the mixture. The second is the uncertainty that remains when the chosen
    member is known. I is 0 for a triple if all members with a share above 0 give it the same probability.

    I is the Jensen-Shannon divergence of the members (Lin 1991). Houlsby et al. 2011 (BALD) use it to choose training
    data, and Lakshminarayanan et al. 2017 use it for ensembles.
    """
    mixture = (members @ shares).clip(0, 1)
    apart: Floats = _entropy(mixture) - _entropy(members) @ shares
    return apart.clip(0, np.log(2))  # rounding can leave this range


def _entropy(q: Floats) -> Floats:
    from scipy.special import entr  # the summaries of finished runs, which need this module, do not load SciPy

    return entr(q) + entr(1 - q)


def disputed(apart: Floats, probabilities: Probabilities, labels: Labels, weights: Weights | None = None) -> Disputed:
    """Compute the error of an ensemble on the half of the rows with the least disagreement, and on the other half.

    apart          (n,) disagreement of the members, in nats
    probabilities  (n,) of the ensemble, in [0, 1]
    labels         (n,) 0/1, or confidences
    weights        (n,) positive; None: equal

    If several rows with equal disagreement lie on the boundary, the weight of each is divided between the halves in the
    same proportion. Raises InputError for values out of range.
    """
    n = same_length(disagreement=apart, probabilities=probabilities, labels=labels)
    q, y, w = as_probabilities(probabilities, n), as_truth(labels, n), scaled_weights(weights, n)
    _, place = np.unique(apart, return_inverse=True)
    total = np.bincount(place, weights=w)
    inside = ((w.sum() / 2 - (np.cumsum(total) - total)) / total).clip(0, 1)[
        place
    ]  # share of the row in the first half
    halves = ((w * share, share > 0) for share in (inside, 1 - inside))
    scores = (brier(q[rows], y[rows], part[rows]) for part, rows in halves)
    return Disputed(float(np.average(apart, weights=w)), *scores)
