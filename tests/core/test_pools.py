"""Opinion pools: comparisons with other optimisers, and properties of every registered pool."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logit

from kgcore.calibrate import logistic
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.errors import FitError, InputError
from kgcore.registries import POOLS
from kgcore.wings.ensembles.fit import bounds
from kgcore.wings.ensembles.pools import Linear, LogOdds

every_pool = pytest.mark.parametrize("name", POOLS.names())


def drawn(seed: int, n: int = 500, m: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw probabilities of the members, weights, and labels that depend on the first and the last member."""
    rng = np.random.default_rng(seed)
    members = rng.uniform(0.02, 0.98, (n, m))
    labels = (rng.random(n) < expit(logit(members[:, 0]) + 0.5 * logit(members[:, -1]))).astype(float)
    return members, labels, rng.uniform(0.1, 5, n)


@pytest.mark.parametrize("seed", range(3))
def test_linear_weights_equal_those_of_the_em_algorithm(seed: int) -> None:
    members, labels, weights = drawn(seed)
    p, w, u = np.where(labels[:, None] == 1, members, 1 - members), np.full(3, 1 / 3), weights / weights.sum()
    for _ in range(20_000):
        shares = p * w
        w = u @ (shares / shares.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(Linear.fit(members, labels, weights).weights, w, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_log_odds_weights_equal_those_of_another_optimiser(seed: int) -> None:
    members, labels, weights = drawn(seed)
    contrary = np.random.default_rng(9).normal(size=len(labels)) + 1 - 2 * labels
    members[:, 1] = expit(contrary)  # its best weight is at the bound 0
    alpha, c = np.average(labels, weights=weights), 2 / (min(labels.sum(), (1 - labels).sum()) + 2)
    targets = np.where(labels == 1, 1 - c * (1 - alpha), c * alpha)

    def loss(w: np.ndarray) -> float:
        z = logit(members) @ w
        return float(np.average(np.logaddexp(0, z) - targets * z, weights=weights))

    best = minimize(loss, np.ones(3), method="L-BFGS-B", bounds=[(0, None)] * 3, options={"ftol": 1e-15, "gtol": 1e-9})
    found = LogOdds.fit(members, labels, weights).weights
    np.testing.assert_allclose(found, best.x, atol=1e-4)
    assert found[1] == 0


def test_the_weights_of_a_known_mixture_are_found(rng: np.random.Generator) -> None:
    members = rng.uniform(0.01, 0.99, (100_000, 3))
    labels = (rng.random(100_000) < members @ [0.3, 0.7, 0]).astype(float)
    np.testing.assert_allclose(Linear.fit(members, labels, np.ones(100_000)).weights, [0.3, 0.7, 0], atol=0.015)
    z = logit(members) @ [0.8, 0.6, 0]
    labels = (rng.random(100_000) < expit(z)).astype(float)
    np.testing.assert_allclose(LogOdds.fit(members, labels, np.ones(100_000)).weights, [0.8, 0.6, 0], atol=0.02)


@settings(max_examples=80)
@given(data=st.data())
def test_linear_weights_satisfy_the_conditions_of_a_minimum(data: st.DataObject) -> None:
    n, m = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 4))
    grid = st.integers(1, 99)
    members = np.array(data.draw(st.lists(grid, min_size=n * m, max_size=n * m))).reshape(n, m) / 100
    labels = np.array(data.draw(st.lists(st.integers(0, 1), min_size=n, max_size=n)), dtype=float)
    pool = Linear.fit(members, labels, np.ones(n))
    p = np.where(labels[:, None] == 1, members, 1 - members)
    gain = (p / (p @ pool.weights)[:, None]).mean(axis=0)
    assert (gain <= 1 + 1e-7).all()  # this bounds the distance of the loss to its minimum


@every_pool
@settings(max_examples=60)
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
def test_the_order_of_members_and_rows_and_the_scale_of_weights_do_not_matter(name: str, seed: int) -> None:
    members, labels, weights = drawn(seed)
    pool, fit = POOLS.get(name).fit(members, labels, weights), POOLS.get(name).fit
    rng = np.random.default_rng(seed)
    columns, rows = rng.permutation(3), rng.permutation(len(labels))
    again = fit(members[rows][:, columns], labels[rows], weights[rows] * 7)
    np.testing.assert_allclose(again.weights, pool.weights[columns], atol=1e-7)
    np.testing.assert_allclose(again.log_odds(members[:, columns]), pool.log_odds(members), atol=1e-7)


@every_pool
def test_equal_members_pool_like_one_member(name: str) -> None:
    members, labels, weights = drawn(5, m=1)
    alone = POOLS.get(name).fit(members, labels, weights)
    several = POOLS.get(name).fit(np.repeat(members, 3, axis=1), labels, weights)
    np.testing.assert_allclose(several.log_odds(np.repeat(members, 3, axis=1)), alone.log_odds(members), atol=1e-8)
    assert several.weights.sum() == pytest.approx(alone.weights.sum(), abs=1e-8)
    # the loss determines the sum of the weights only; the solver's ridge of 1e-12 keeps them equal up to rounding
    np.testing.assert_allclose(several.shares, 1 / 3, atol=1e-4)


@every_pool
def test_a_perfect_member_gets_all_the_weight(name: str, rng: np.random.Generator) -> None:
    labels = (rng.random(400) < 0.5).astype(float)
    low, high = bounds(ground_truth_sample(labels, labels))
    members = np.stack([rng.uniform(0.2, 0.8, 400), np.where(labels == 1, high, low)], axis=1)
    pool = POOLS.get(name).fit(members, labels, np.ones(400))
    assert pool.shares[1] > 0.99
    assert np.isfinite(pool.weights).all()


@every_pool
@pytest.mark.parametrize("weights", [[-1.0, 2.0], []])
def test_pool_weights_out_of_range_are_refused(name: str, weights: list[float]) -> None:
    with pytest.raises(InputError, match="at least one is needed, and each must be at least 0"):
        POOLS.get(name)(weights)


def test_weights_of_the_linear_pool_must_sum_to_1() -> None:
    with pytest.raises(InputError, match=r"weights of the linear pool are \[0.5, 0.6\]: they must sum to 1"):
        Linear([0.5, 0.6])


@every_pool
def test_a_pool_that_does_not_converge_raises(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logistic, "MAX_STEPS", 1)
    with pytest.raises(FitError, match=r"the (linear|log-odds) pool did not converge in 1 steps"):
        POOLS.get(name).fit(*drawn(0))
