"""Ensembles: their error compared with members and exact solutions, their files, and inputs that raise an error."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from kgcore.base_rate import BaseRate
from kgcore.calibrate.base import Uncalibrated
from kgcore.calibrate.calibrated import FORMAT, Calibrated
from kgcore.calibrate.isotonic import SmoothedIsotonic
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.config import ClassifyConfig
from kgcore.errors import InputError, MismatchError
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.registries import POOLS
from kgcore.scores.table import CORRUPTION, LABELLED, ScoreTable
from kgcore.wings.ensembles.ensemble import pooling_of
from kgcore.wings.ensembles.fit import judge
from tests.core.ensemble_samples import fit_pools, independent_members, member_tables


def pooled(ensemble: Calibrated, members: np.ndarray, predicates: np.ndarray | None = None) -> np.ndarray:
    """Return the probabilities (n,) of an ensemble from those of its members (n, m)."""
    return ensemble.predict(pooling_of(ensemble).log_odds(members), ensemble.model, predicates)


def ground_truth(ensembles: list[Calibrated]) -> Calibrated:
    [found] = (ensemble for ensemble in ensembles if ensemble.negatives == "ground_truth")
    return found


@pytest.mark.parametrize("name", POOLS.names())
@pytest.mark.parametrize("seed", range(3))
def test_members_with_independent_errors_are_better_together(name: str, seed: int) -> None:
    made, source = member_tables(*independent_members(seed=seed))
    for ensemble in fit_pools(made, source, pools=(name,)):
        test = made[0].measured("test")
        members = pooling_of(ensemble).member_probabilities([t.scores[test] for t in made], [t.model for t in made])
        q, labels = pooled(ensemble, members), made[0].labels[test]
        assert ((q >= 0) & (q <= 1)).all()
        assert brier(q, labels) < min(brier(own, labels) for own in members.T) - 0.02
        assert log_loss(q, labels) < min(log_loss(own, labels) for own in members.T)
        exact = expit(sum(2 / 1.5**2 * t.scores[test] for t in made))  # Bayes' rule
        assert brier(q, labels) < brier(exact, labels) + 0.006


def test_a_linear_pool_of_calibrated_members_is_underconfident_until_it_is_calibrated_again() -> None:
    made, source = member_tables(*independent_members())
    again = ground_truth(fit_pools(made, source, pools=("linear",), recalibrator="platt"))
    as_it_is = replace(again, name="uncalibrated", calibrator=Uncalibrated())
    assert again.calibrator.parameters()["a"] > 1.3
    test = made[0].measured("test")
    members = pooling_of(again).member_probabilities([t.scores[test] for t in made], [t.model for t in made])
    labels = made[0].labels[test]
    assert brier(pooled(again, members), labels) < brier(pooled(as_it_is, members), labels) - 0.003


@pytest.mark.parametrize("base_rate", [0.05, 0.5, 0.9])
def test_a_synthetic_ensemble_has_the_stated_base_rate(base_rate: float) -> None:
    made, source = member_tables(*independent_members(2000))
    for ensemble in fit_pools(made, source, base_rate):
        if ensemble.negatives == "synthetic":
            assert ensemble.base_rate == base_rate
            assert {member.base_rate for member in pooling_of(ensemble).members} == {base_rate}
            valid = made[0].rows("valid", LABELLED, 1) | made[0].rows("valid", CORRUPTION)
            members = pooling_of(ensemble).member_probabilities(
                [t.scores[valid] for t in made], [t.model for t in made]
            )
            labels = made[0].labels[valid]
            weights = np.where(labels == 1, base_rate / labels.sum(), (1 - base_rate) / (1 - labels).sum())
            assert np.average(pooled(ensemble, members), weights=weights) == pytest.approx(base_rate, abs=0.02)


def test_an_interval_of_the_base_rate_reaches_the_ensemble() -> None:
    made, source = member_tables(*independent_members(2000))
    for ensemble in fit_pools(made, source, 0.1, limits=(0.05, 0.2)):
        synthetic, bound = ensemble.negatives == "synthetic", ensemble
        assert bound.rate.limits == ((0.05, 0.2) if synthetic else None)
        assert Calibrated.from_json(json.loads(json.dumps(ensemble.to_json()))).rate == bound.rate
        scores = np.linspace(-2, 2, 9)
        q = bound.predict(scores, bound.model)
        low, high = bound.interval(scores, q)
        plain_low, plain_high = replace(bound, rate=BaseRate(bound.base_rate)).interval(scores, q)
        assert ((low < plain_low) & (high > plain_high)).any() == synthetic


def tables_of_two_relations(rng: np.random.Generator) -> tuple[list[ScoreTable], np.ndarray, np.ndarray]:
    """Return score tables with two relations, the sources, and the predicate of each row.

    The scores of one relation are higher than those of the other.
    """
    evidence, labels = independent_members(4000)
    relation = rng.integers(0, 2, len(labels))
    made, source = member_tables(evidence + np.where(relation, 2.0, -2.0)[:, None], labels)
    half = len(labels) // 2
    negatives = relation[:half][labels[:half] == 0]
    drawn = np.random.default_rng(0).integers(0, len(negatives), len(source))  # as in `member_tables`
    predicates = np.r_[relation, negatives[drawn]]
    assert (labels[:half] == 1).sum() == source.max() + 1
    triples = np.stack([made[0].triples[:, 0], predicates, made[0].triples[:, 2]], axis=1)
    return [replace(table, triples=triples) for table in made], source, predicates


def test_an_ensemble_by_predicate_separates_relations(rng: np.random.Generator) -> None:
    made, source, predicates = tables_of_two_relations(rng)
    by_predicate = {"member_calibrator": "per_relation", "recalibrator": "per_relation"}
    shared = ground_truth(fit_pools(made, source, pools=("log_odds",)))
    apart = ground_truth(fit_pools(made, source, pools=("log_odds",), **by_predicate))
    apart = Calibrated.from_json(json.loads(json.dumps(apart.to_json())))
    test = made[0].measured("test")
    scores, models, own = [t.scores[test] for t in made], [t.model for t in made], predicates[test]
    q = pooled(apart, pooling_of(apart).member_probabilities(scores, models, own), own)
    without = pooled(shared, pooling_of(shared).member_probabilities(scores, models))
    assert brier(q, made[0].labels[test]) < brier(without, made[0].labels[test]) - 0.05
    judged = judge([apart], made, ("a", "b", "c"), 0.5, ClassifyConfig())
    np.testing.assert_array_equal(judged.predictions.probabilities["ground_truth.log_odds"], q)
    with pytest.raises(InputError, match="has a map for each predicate: pass the predicates, too"):
        pooling_of(apart).member_probabilities(scores, models)
    with pytest.raises(InputError, match=r"the calibrator ground_truth\.log_odds has a map for each predicate"):
        pooled(apart, pooling_of(apart).member_probabilities(scores, models, own))


def test_an_ensemble_survives_json() -> None:
    made, source = member_tables(*independent_members(400))
    for ensemble in fit_pools(made, source):
        again = Calibrated.from_json(json.loads(json.dumps(ensemble.to_json())))
        scores, models = [t.scores for t in made], [t.model for t in made]
        members = pooling_of(ensemble).member_probabilities(scores, models)
        np.testing.assert_array_equal(pooling_of(again).member_probabilities(scores, models), members)
        np.testing.assert_array_equal(pooled(again, members), pooled(ensemble, members))
        with pytest.raises(InputError, match=f"reads calibrators of format {FORMAT}, not 9"):
            Calibrated.from_json(ensemble.to_json() | {"format": 9})


def test_an_ensemble_refuses_other_models_and_values_that_are_no_probabilities() -> None:
    made, source = member_tables(*independent_members(400))
    scores, models = [t.scores for t in made], [t.model for t in made]
    ensemble = ground_truth(fit_pools(made, source, pools=("linear",), recalibrator="platt"))
    with pytest.raises(MismatchError, match="belongs to model model 0, but the scores come from model model 2"):
        pooling_of(ensemble).member_probabilities(scores, models[::-1])
    with pytest.raises(InputError, match=r"probabilities \(n, 3\) in \[0, 1\] are needed"):
        pooled(ensemble, pooling_of(ensemble).member_probabilities(scores, models) + 1)


def test_members_are_measured_on_the_same_rows_as_ensembles() -> None:
    made, source = member_tables(*independent_members(600, m=2))
    judged = judge(fit_pools(made, source), made, ["a", "b"], 0.5, ClassifyConfig()).predictions
    assert list(judged.probabilities) == [
        *(f"ground_truth.{name}" for name in ("a", "b", "linear", "log_odds")),
        *(f"synthetic.{name}" for name in ("a", "b", "linear", "log_odds")),
    ]
    test = made[0].measured("test")
    valid = made[1].rows("valid", LABELLED)
    alone = SmoothedIsotonic().fit_sample(ground_truth_sample(made[1].scores[valid], made[1].labels[valid]))
    np.testing.assert_array_equal(judged.probabilities["ground_truth.b"], alone.calibrate(made[1].scores[test]))
    np.testing.assert_array_equal(judged.labels, made[0].labels[test])
    assert not judged.synthetic_negatives


def test_without_labelled_negatives_corruptions_are_weighted_to_the_base_rate() -> None:
    made, _ = member_tables(*independent_members(600, m=2))
    bare = []
    for table in made:  # only positives and corruptions, in both splits
        keep = table.labels == 1
        corruptions = table.rows("valid", CORRUPTION)
        rows = np.r_[np.flatnonzero(keep), np.flatnonzero(corruptions), np.flatnonzero(corruptions)]
        own = replace(table, **{name: getattr(table, name)[rows] for name in ("triples", "labels", "scores", "origin")})
        split = np.r_[table.split[keep], np.repeat(["valid", "test"], corruptions.sum())]
        bare.append(replace(own, split=split))
    positives = int(bare[0].rows("valid", LABELLED).sum())
    ensembles = fit_pools(bare, np.repeat(np.arange(positives), 3), 0.2)
    assert {ensemble.negatives for ensemble in ensembles} == {"synthetic"}
    judged = judge(ensembles, bare, ["a", "b"], 0.2, ClassifyConfig()).predictions
    assert judged.synthetic_negatives
    assert judged.base_rate == pytest.approx(0.2)


def test_tables_that_do_not_belong_together_are_refused() -> None:
    made, source = member_tables(*independent_members(200, m=2))
    one, two = made
    with pytest.raises(InputError, match="an ensemble needs at least two members: 1 given"):
        fit_pools([one], source)
    with pytest.raises(InputError, match="two members of the ensemble are the same model"):
        fit_pools([one, one], source)
    with pytest.raises(MismatchError, match="member 2 of the ensemble has scores of another graph than member 1"):
        fit_pools([one, replace(two, dataset="other")], source)
    with pytest.raises(MismatchError, match="member 2 of the ensemble was scored on other rows than member 1"):
        fit_pools([one, replace(two, triples=two.triples[::-1])], source)
    with pytest.raises(MismatchError, match="140 corruptions have a source, but the table has 141 corruptions of 47"):
        fit_pools(made, source[:-1])
