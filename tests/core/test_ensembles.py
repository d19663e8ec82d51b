"""Ensembles: oracles for each pool, and what holds for every registered one."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from kgcore import newton
from kgcore.calibration.isotonic import Isotonic
from kgcore.calibration.platt import Platt
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample
from kgcore.config import CalibrateConfig, ClassifyConfig, CorruptConfig, EnsembleConfig
from kgcore.ensembles.disagreement import disagreement, disputed
from kgcore.ensembles.ensemble import Ensemble
from kgcore.ensembles.fit import bounds, fit_ensembles
from kgcore.ensembles.folds import cross_fitted, draw_folds
from kgcore.ensembles.judge import judge
from kgcore.ensembles.linear import Linear
from kgcore.ensembles.log_odds import LogOdds
from kgcore.errors import FitError, InputError, MismatchError
from kgcore.metrics.proper import brier, log_loss
from kgcore.registries import POOLS
from kgcore.score_table import CORRUPTION, LABELLED, ScoreTable

every_pool = pytest.mark.parametrize("name", POOLS.names())
UNIFORM = np.ones


def drawn(seed: int, n: int = 500, m: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Members' probabilities, labels that go with the first and the last of them, and weights."""
    rng = np.random.default_rng(seed)
    members = rng.uniform(0.02, 0.98, (n, m))
    labels = (rng.random(n) < expit(logit(members[:, 0]) + 0.5 * logit(members[:, -1]))).astype(float)
    return members, labels, rng.uniform(0.1, 5, n)


def tables(
    evidence: np.ndarray, labels: np.ndarray, seed: int = 0, eta: int = 3
) -> tuple[list[ScoreTable], np.ndarray]:
    """Members' score tables, whose scores are the evidence (n, m) on labelled triples, the first half valid; with
    `eta` corruptions a validation positive, scored like negatives. And which positive each corruption is of."""
    rng, (n, m) = np.random.default_rng(seed), evidence.shape
    half = n // 2
    positives = int(labels[:half].sum())
    source = np.repeat(np.arange(positives), eta)
    negatives = evidence[:half][labels[:half] == 0]
    corrupted = negatives[rng.integers(0, len(negatives), len(source))]
    scores = np.concatenate([evidence, corrupted])
    split = np.r_[np.repeat("valid", half), np.repeat("test", n - half), np.repeat("valid", len(source))]
    origin = np.r_[np.repeat(LABELLED, n), np.repeat(CORRUPTION, len(source))]
    triples = np.arange(3 * len(scores)).reshape(-1, 3)
    every = np.r_[labels, np.zeros(len(source))]
    return [ScoreTable(triples, every, scores[:, j], split, origin, f"model {j}", "graph") for j in range(m)], source


def independent(n: int = 6000, m: int = 3, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Evidence of members that err independently, and labels."""
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.5).astype(float)
    return (2 * labels - 1)[:, None] + 1.5 * rng.normal(size=(n, m)), labels


def fitted(made: list[ScoreTable], source: np.ndarray, base_rate: float = 0.5, **config) -> list[Ensemble]:
    calibrate = CalibrateConfig(base_rate=base_rate)
    return fit_ensembles(made, source, CorruptConfig(), calibrate, EnsembleConfig(**config), np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(3))
def test_linear_weights_are_those_of_the_em_algorithm(seed: int) -> None:
    members, labels, weights = drawn(seed)
    p, w, u = np.where(labels[:, None] == 1, members, 1 - members), np.full(3, 1 / 3), weights / weights.sum()
    for _ in range(20_000):
        shares = p * w
        w = u @ (shares / shares.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(Linear.fit(members, labels, weights).weights, w, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_log_odds_weights_are_those_of_another_optimiser(seed: int) -> None:
    members, labels, weights = drawn(seed)
    contrary = np.random.default_rng(9).normal(size=len(labels)) + 1 - 2 * labels
    members[:, 1] = expit(contrary)  # which is held at 0
    n, m = labels.sum(), (1 - labels).sum()
    targets = np.where(labels == 1, (n + 1) / (n + 2), 1 / (m + 2))

    def loss(w):
        z = logit(members) @ w
        return np.average(np.logaddexp(0, z) - targets * z, weights=weights)

    best = minimize(loss, np.ones(3), method="L-BFGS-B", bounds=[(0, None)] * 3, options={"ftol": 1e-15, "gtol": 1e-9})
    found = LogOdds.fit(members, labels, weights).weights
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert found[1] == 0


def test_the_weights_of_a_known_mixture_are_found(rng: np.random.Generator) -> None:
    members = rng.uniform(0.01, 0.99, (100_000, 3))
    labels = (rng.random(100_000) < members @ [0.3, 0.7, 0]).astype(float)
    np.testing.assert_allclose(Linear.fit(members, labels, UNIFORM(100_000)).weights, [0.3, 0.7, 0], atol=0.015)
    z = logit(members) @ [0.8, 0.6, 0]
    labels = (rng.random(100_000) < expit(z)).astype(float)
    np.testing.assert_allclose(LogOdds.fit(members, labels, UNIFORM(100_000)).weights, [0.8, 0.6, 0], atol=0.02)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_linear_weights_are_a_minimum_by_its_own_conditions(data: st.DataObject) -> None:
    n, m = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 4))
    grid = st.integers(1, 99)
    members = np.array(data.draw(st.lists(grid, min_size=n * m, max_size=n * m))).reshape(n, m) / 100
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)), dtype=float)
    pool = Linear.fit(members, labels, UNIFORM(n))
    p = np.where(labels[:, None] == 1, members, 1 - members)
    gain = (p / (p @ pool.weights)[:, None]).mean(axis=0)
    assert (gain <= 1 + 1e-7).all()  # which bounds how far the loss is above its minimum


@every_pool
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_pool_is_monotone_in_each_member_and_survives_json(name: str, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 4))
    weights = np.array(data.draw(st.lists(st.integers(0, 5), min_size=m, max_size=m).filter(any)), dtype=float)
    pool = POOLS.get(name)((weights / weights.sum() if name == "linear" else weights).tolist())
    inner = st.floats(0.001, 0.999)
    low = np.array([data.draw(st.lists(inner, min_size=m, max_size=m))])
    high = np.maximum(low, [data.draw(st.lists(inner, min_size=m, max_size=m))])
    assert np.isfinite(pool.log_odds(low)).all()
    assert (pool.log_odds(high) >= pool.log_odds(low) - 1e-12).all()
    again = POOLS.get(name)(**json.loads(json.dumps(pool.parameters())))
    np.testing.assert_array_equal(again.log_odds(low), pool.log_odds(low))
    assert pool.shares.sum() == pytest.approx(1)


@every_pool
@pytest.mark.parametrize("seed", range(2))
def test_the_order_of_members_and_rows_and_the_scale_of_weights_change_nothing(name: str, seed: int) -> None:
    members, labels, weights = drawn(seed)
    pool, fit = POOLS.get(name).fit(members, labels, weights), POOLS.get(name).fit
    rng = np.random.default_rng(seed)
    columns, rows = rng.permutation(3), rng.permutation(len(labels))
    again = fit(members[rows][:, columns], labels[rows], weights[rows] * 7)
    np.testing.assert_allclose(again.weights, pool.weights[columns], atol=1e-7)
    np.testing.assert_allclose(again.log_odds(members[:, columns]), pool.log_odds(members), atol=1e-7)


@every_pool
def test_equal_members_are_as_one(name: str) -> None:
    members, labels, weights = drawn(5, m=1)
    alone = POOLS.get(name).fit(members, labels, weights).log_odds(members)
    several = POOLS.get(name).fit(np.repeat(members, 3, axis=1), labels, weights)
    np.testing.assert_allclose(several.log_odds(np.repeat(members, 3, axis=1)), alone, atol=1e-8)
    np.testing.assert_allclose(several.shares, 1 / 3, atol=1e-6)


@every_pool
def test_a_perfect_member_takes_the_weight(name: str, rng: np.random.Generator) -> None:
    labels = (rng.random(400) < 0.5).astype(float)
    low, high = bounds(labels)
    members = np.stack([rng.uniform(0.2, 0.8, 400), np.where(labels == 1, high, low)], axis=1)
    pool = POOLS.get(name).fit(members, labels, UNIFORM(400))
    assert pool.shares[1] > 0.99
    assert np.isfinite(pool.weights).all()


@every_pool
@pytest.mark.parametrize("seed", range(3))
def test_members_that_err_independently_are_better_together(name: str, seed: int) -> None:
    made, source = tables(*independent(seed=seed))
    for ensemble in fitted(made, source, pools=(name,)):
        test = made[0].measured("test")
        members = ensemble.member_probabilities([t.scores[test] for t in made], [t.model for t in made])
        q, labels = ensemble.predict(members), made[0].labels[test]
        assert ((q >= 0) & (q <= 1)).all()
        assert brier(q, labels) < min(brier(own, labels) for own in members.T) - 0.02
        assert log_loss(q, labels) < min(log_loss(own, labels) for own in members.T)
        exact = expit(sum(2 / 1.5**2 * t.scores[test] for t in made))  # what Bayes' rule says
        assert brier(q, labels) < brier(exact, labels) + 0.006


def test_a_linear_pool_of_calibrated_members_lacks_confidence_until_it_is_calibrated_again() -> None:
    made, source = tables(*independent())
    [again] = (e for e in fitted(made, source, pools=("linear",)) if e.negatives == "ground_truth")
    [as_it_is] = (
        e for e in fitted(made, source, pools=("linear",), recalibrator="uncalibrated") if e.negatives == "ground_truth"
    )
    assert again.recalibrated.parameters()["a"] > 1.3
    test = made[0].measured("test")
    members = again.member_probabilities([t.scores[test] for t in made], [t.model for t in made])
    labels = made[0].labels[test]
    assert brier(again.predict(members), labels) < brier(as_it_is.predict(members), labels) - 0.003


@pytest.mark.parametrize("base_rate", [0.05, 0.5, 0.9])
def test_with_corruptions_an_ensemble_is_about_the_base_rate(base_rate: float) -> None:
    made, source = tables(*independent(2000))
    for ensemble in fitted(made, source, base_rate):
        if ensemble.negatives == "synthetic":
            assert ensemble.base_rate == pytest.approx(base_rate)
            valid = made[0].rows("valid", LABELLED, 1) | made[0].rows("valid", CORRUPTION)
            members = ensemble.member_probabilities([t.scores[valid] for t in made], [t.model for t in made])
            labels = made[0].labels[valid]
            weights = np.where(labels == 1, base_rate / labels.sum(), (1 - base_rate) / (1 - labels).sum())
            assert np.average(ensemble.predict(members), weights=weights) == pytest.approx(base_rate, abs=0.02)


def test_an_ensemble_by_predicate_knows_relations_apart(rng: np.random.Generator) -> None:
    evidence, labels = independent(4000)
    relation = rng.integers(0, 2, len(labels))
    made, source = tables(evidence + np.where(relation, 2.0, -2.0)[:, None], labels)  # one scored higher than the other
    half = len(labels) // 2
    positives, negatives = (relation[:half][labels[:half] == label] for label in (1, 0))
    drawn = np.random.default_rng(0).integers(0, len(negatives), len(source))  # as `tables` draws corruptions
    predicates = np.r_[relation, negatives[drawn]]
    assert len(positives) == source.max() + 1
    made = [replace(t, triples=np.stack([t.triples[:, 0], predicates, t.triples[:, 2]], axis=1)) for t in made]
    test = made[0].measured("test")
    scores, models, own = [t.scores[test] for t in made], [t.model for t in made], predicates[test]
    [shared, apart] = (
        next(e for e in fitted(made, source, pools=("log_odds",), **options) if e.negatives == "ground_truth")
        for options in ({}, {"member_calibrator": "per_relation", "recalibrator": "per_relation"})
    )
    apart = Ensemble.from_json(json.loads(json.dumps(apart.to_json())))
    q = apart.predict(apart.member_probabilities(scores, models, own), own)
    told = shared.predict(shared.member_probabilities(scores, models))
    assert brier(q, made[0].labels[test]) < brier(told, made[0].labels[test]) - 0.05
    judged = judge([apart], made, ("a", "b", "c"), 0.5, ClassifyConfig())
    np.testing.assert_array_equal(judged.predictions.probabilities["ground_truth.log_odds"], q)
    with pytest.raises(InputError, match="has a map for each predicate: tell it the predicates"):
        apart.member_probabilities(scores, models)
    with pytest.raises(InputError, match=r"the ensemble ground_truth\.log_odds has a map for each predicate"):
        apart.predict(apart.member_probabilities(scores, models, own))


def test_an_ensemble_survives_json_and_knows_its_models() -> None:
    made, source = tables(*independent(400))
    for ensemble in fitted(made, source):
        again = Ensemble.from_json(json.loads(json.dumps(ensemble.to_json())))
        scores, models = [t.scores for t in made], [t.model for t in made]
        members = ensemble.member_probabilities(scores, models)
        np.testing.assert_array_equal(again.member_probabilities(scores, models), members)
        np.testing.assert_array_equal(again.predict(members), ensemble.predict(members))
        with pytest.raises(MismatchError, match="is of model model 0, these scores are of model model 2"):
            ensemble.member_probabilities(scores, models[::-1])
        with pytest.raises(InputError, match=r"\(n, 3\) in \[0, 1\] are needed"):
            ensemble.predict(members + 1)
        with pytest.raises(InputError, match="has format 9"):
            Ensemble.from_json(ensemble.to_json() | {"format": 9})


@every_pool
def test_what_is_learned_on_held_out_folds_is_worth_more_on_new_triples(name: str) -> None:
    gains = []
    for seed in range(12):
        evidence, labels = independent(4150, seed=seed)
        y, fresh = labels[:150], labels[150:]
        samples = [ground_truth_sample(own, y) for own in evidence[:150].T]
        fold = draw_folds(np.arange(150), y, 10, np.random.default_rng(seed))
        whole = [Isotonic.fit(sample) for sample in samples]
        new = np.stack([fit.predict(own) for fit, own in zip(whole, evidence[150:].T, strict=True)], axis=1)
        learned_on = {
            "others": np.stack([cross_fitted(Isotonic, sample, fold) for sample in samples], axis=1),
            "themselves": np.stack([fit.predict(s.scores) for fit, s in zip(whole, samples, strict=True)], axis=1),
        }
        losses = {}
        for way, members in learned_on.items():
            pool = POOLS.get(name).fit(members.clip(*bounds(y)), y, UNIFORM(150))
            again = Platt.fit(ground_truth_sample(pool.log_odds(members.clip(*bounds(y))), y))
            losses[way] = log_loss(again.predict(pool.log_odds(new.clip(*bounds(y)))), fresh)
        gains.append(losses["themselves"] - losses["others"])
    assert np.mean(gains) > 0.005


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_groups_stay_together_and_kinds_are_spread_evenly(data: st.DataObject) -> None:
    positives, alone, folds = (
        data.draw(st.integers(1, 30)),
        data.draw(st.integers(0, 30)),
        data.draw(st.integers(2, 10)),
    )
    times = np.array(data.draw(st.lists(st.integers(0, 4), min_size=positives, max_size=positives)))
    groups = np.r_[np.arange(positives), np.repeat(np.arange(positives), times), positives + np.arange(alone)]
    labels = np.r_[np.ones(positives), np.zeros(times.sum() + alone)]
    fold = draw_folds(groups, labels, folds, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert ((fold >= 0) & (fold < folds)).all()
    first = {}
    assert all(first.setdefault(group, number) == number for group, number in zip(groups, fold, strict=True))
    for kind in (np.arange(positives), positives + np.arange(alone)):
        sizes = np.bincount([first[group] for group in kind], minlength=folds)
        assert sizes.max() - sizes.min() <= 1


def test_folds_are_drawn_by_the_generator() -> None:
    groups, labels = np.arange(50), np.tile([0.0, 1.0], 25)
    one, again, other = (draw_folds(groups, labels, 5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    with pytest.raises(InputError, match="folds is 1: it must be at least 2"):
        draw_folds(groups, labels, 1, np.random.default_rng(0))


def test_each_row_is_judged_by_a_calibrator_of_the_other_folds(rng: np.random.Generator) -> None:
    scores, labels, weights = rng.normal(size=30), np.tile([0.0, 1.0, 1.0], 10), rng.uniform(0.5, 2, 30)
    sample, fold = CalibrationSample(scores, labels, weights), rng.integers(0, 3, 30)
    q = cross_fitted(Isotonic, sample, fold)
    for row in range(30):
        others = fold != fold[row]
        own = Isotonic.fit(CalibrationSample(scores[others], labels[others], weights[others]))
        assert q[row] == pytest.approx(own.predict(scores[row : row + 1])[0])


def test_disagreement_by_hand() -> None:
    half = np.array([0.5, 0.5])
    found = disagreement(np.array([[0.0, 1.0], [0.3, 0.3], [0.5, 1.0]]), half)
    # of the last: H(3/4) - H(1/2) / 2
    last = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - np.log(2) / 2
    np.testing.assert_allclose(found, [np.log(2), 0, last], atol=1e-12)
    np.testing.assert_allclose(disagreement(np.array([[0.0, 1.0]]), np.array([1.0, 0.0])), [0], atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_disagreement_is_the_mean_divergence_from_the_mixture(data: st.DataObject) -> None:
    m = data.draw(st.integers(1, 5))
    q = np.array(data.draw(st.lists(st.floats(0.001, 0.999), min_size=m, max_size=m)))
    w = np.array(data.draw(st.lists(st.integers(1, 9), min_size=m, max_size=m)), dtype=float)
    w, mixture = w / w.sum(), 0.0
    mixture = w @ q
    divergence = q * np.log(q / mixture) + (1 - q) * np.log((1 - q) / (1 - mixture))
    [found] = disagreement(q[None], w)
    assert found == pytest.approx(w @ divergence, abs=1e-12)
    assert 0 <= found <= np.log(2)


def test_the_halves_by_disagreement_by_hand() -> None:
    q, labels, weights = np.array([0.1, 0.8, 0.5, 0.4]), np.array([0.0, 1, 1, 1]), np.array([1.0, 1, 1, 1])
    found = disputed(np.array([0.0, 0.3, 0.1, 0.2]), q, labels, weights)
    assert found.disagreement == pytest.approx(0.15)
    assert found.brier_agreed == pytest.approx((0.01 + 0.25) / 2)
    assert found.brier_disputed == pytest.approx((0.04 + 0.36) / 2)
    # the rows on which the halves meet belong to both: here the first is in one half, the others share the rest
    ties = disputed(np.array([0.0, 0.1, 0.1, 0.1]), q, labels, weights)
    assert ties.brier_agreed == pytest.approx((0.01 + (0.04 + 0.25 + 0.36) / 3) / 2)
    assert ties.brier_disputed == pytest.approx((0.04 + 0.25 + 0.36) / 3)
    nowhere = disputed(np.zeros(4), q, labels, weights)
    assert nowhere.brier_agreed == nowhere.brier_disputed == pytest.approx(brier(q, labels))
    heavy = disputed(np.array([0.0, 0.3, 0.1, 0.2]), q, labels, np.array([3.0, 1, 1, 1]))
    assert heavy.brier_agreed == pytest.approx(0.01)


def test_members_that_differ_err_more_where_they_disagree() -> None:
    made, source = tables(*independent())
    ensembles = fitted(made, source)
    judged = judge(ensembles, made, ["a", "b", "c"], 0.5, ClassifyConfig())
    for label in ("ground_truth.linear", "ground_truth.log_odds", "synthetic.linear", "synthetic.log_odds"):
        told = judged.disputed[label]
        assert 0.01 < told.disagreement < np.log(2)
        assert told.brier_disputed > told.brier_agreed + 0.02
        assert told.disagreement == pytest.approx(judged.disagreement[label].mean())


def test_members_are_judged_beside_the_ensembles_on_the_same_rows() -> None:
    made, source = tables(*independent(600, m=2))
    judged = judge(fitted(made, source), made, ["a", "b"], 0.5, ClassifyConfig()).predictions
    assert list(judged.probabilities) == [
        *(f"ground_truth.{name}" for name in ("a", "b", "linear", "log_odds")),
        *(f"synthetic.{name}" for name in ("a", "b", "linear", "log_odds")),
    ]
    test = made[0].measured("test")
    valid = made[1].rows("valid", LABELLED)
    alone = Isotonic.fit(ground_truth_sample(made[1].scores[valid], made[1].labels[valid]))
    np.testing.assert_array_equal(judged.probabilities["ground_truth.b"], alone.predict(made[1].scores[test]))
    np.testing.assert_array_equal(judged.labels, made[0].labels[test])
    assert not judged.synthetic_negatives


def test_without_labelled_negatives_corruptions_are_weighted_to_the_base_rate() -> None:
    made, _ = tables(*independent(600, m=2))
    bare = []
    for table in made:  # positives and corruptions alone, in both splits
        keep = table.labels == 1
        corruptions = table.rows("valid", CORRUPTION)
        rows = np.r_[np.flatnonzero(keep), np.flatnonzero(corruptions), np.flatnonzero(corruptions)]
        own = replace(table, **{name: getattr(table, name)[rows] for name in ("triples", "labels", "scores", "origin")})
        split = np.r_[table.split[keep], np.repeat(["valid", "test"], corruptions.sum())]
        bare.append(replace(own, split=split))
    positives = int(bare[0].rows("valid", LABELLED).sum())
    ensembles = fitted(bare, np.repeat(np.arange(positives), 3), 0.2)
    assert {ensemble.negatives for ensemble in ensembles} == {"synthetic"}
    judged = judge(ensembles, bare, ["a", "b"], 0.2, ClassifyConfig()).predictions
    assert judged.synthetic_negatives
    assert judged.base_rate == pytest.approx(0.2)


def test_what_does_not_belong_together_is_refused() -> None:
    made, source = tables(*independent(200, m=2))
    one, two = made
    with pytest.raises(InputError, match="an ensemble of 1: at least two"):
        fitted([one], source)
    with pytest.raises(InputError, match="two members of the ensemble are the same model"):
        fitted([one, one], source)
    with pytest.raises(MismatchError, match="member 2 of the ensemble is of another graph than member 1"):
        fitted([one, replace(two, dataset="other")], source)
    with pytest.raises(MismatchError, match="member 2 of the ensemble was scored on other corruptions"):
        fitted([one, replace(two, triples=two.triples[::-1])], source)
    with pytest.raises(MismatchError, match="corruptions have a source"):
        fitted(made, source[:-1])


@every_pool
def test_values_that_cannot_be_are_refused(name: str) -> None:
    pool, members = POOLS.get(name), np.array([[0.2, 0.4], [0.6, 0.9]])
    labels, weights = np.array([0.0, 1.0]), UNIFORM(2)
    for wrong in (members + 0.5, members * 0, members[:, 0]):
        with pytest.raises(InputError, match=r"above 0 and below 1|is needed, a column each"):
            pool.fit(wrong, labels, weights)
    for numbers in ([-1.0, 2.0], []):
        with pytest.raises(InputError, match="at least one is needed, and none below 0"):
            pool(numbers)
    if name == "linear":
        with pytest.raises(InputError, match="they must sum to 1"):
            pool([0.5, 0.6])
    with pytest.raises(InputError, match="shares are"):
        disagreement(members, np.array([0.5, 0.6]))
    with pytest.raises(InputError, match=r"lie in \[0, 1\]"):
        disagreement(members + 0.5, np.array([0.5, 0.5]))


@every_pool
def test_a_fit_that_has_not_converged_says_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(newton, "MAX_STEPS", 1)
    with pytest.raises(FitError, match=r"the (linear|log-odds) pool did not converge in 1 steps"):
        POOLS.get(name).fit(*drawn(0))
