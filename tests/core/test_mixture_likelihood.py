"""The likelihood of a mixture: its maximum, its bins, and what dependent rows count."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import softmax

from kgcore.mixture.em import Solution, log_likelihood, solve
from kgcore.mixture.interval import base_rate_interval
from kgcore.mixture.samples import (
    BinCounts,
    MixtureData,
    ScoreSample,
    bin_edges,
    count,
    design_effect,
    number_of_bins,
    smoothed,
)
from tests.core.mixtures import normal_mixture


def small(seed: int, labels: int = 0) -> BinCounts:
    """Two strategies in six bins."""
    data = normal_mixture(seed, (-1.0, 0.0), (0.7, 0.3), 0.4, 80, 200, 300, labels)
    return count(data, bin_edges(data, 6))


@pytest.mark.parametrize("labels", [0, 30])
@pytest.mark.parametrize("alpha", [None, 0.3])
def test_no_other_optimiser_finds_a_greater_likelihood(alpha: float | None, labels: int) -> None:
    counts = small(1, labels)
    _, num, bins = counts.components.shape
    solved = solve(counts, None if alpha is None else np.array([alpha]))

    def loss(v: np.ndarray) -> float:
        free = softmax(v[:num]) if alpha is None else np.r_[alpha, (1 - alpha) * softmax(v[1:num])]
        densities = softmax(v[num:].reshape(num, bins), axis=1)
        return -float(log_likelihood(counts, free[None], densities[None])[0])

    start = np.r_[np.zeros(num), np.log(counts.components[0] / counts.components[0].sum(1, keepdims=True)).ravel()]
    best = minimize(loss, start, method="BFGS", options={"maxiter": 2_000, "gtol": 1e-6})
    assert solved.likelihood[0] == pytest.approx(-best.fun, abs=2e-3)
    assert solved.likelihood[0] >= -best.fun - 2e-3
    if alpha is not None:
        assert solved.weights[0, 0] == pytest.approx(alpha)


def test_with_large_samples_of_components_the_weights_are_those_of_known_densities() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(8), 3)
    c = rng.multinomial(500, np.array([0.3, 0.5, 0.2]) @ p).astype(float)
    nothing = np.zeros((1, 8))
    solved = solve(BinCounts(c[None], 1e8 * p[None], nothing, nothing))
    w = np.full(3, 1 / 3)
    for _ in range(20_000):  # EM with known densities
        w = w * (p @ (c / (w @ p))) / c.sum()
    assert solved.weights[0] == pytest.approx(w, abs=1e-3)


def test_problems_that_are_solved_together_have_the_solutions_of_single_ones() -> None:
    alone = [small(seed) for seed in range(4)]
    together = solve(BinCounts.stack(alone))
    for number, counts in enumerate(alone):
        solved = solve(counts)
        assert together.likelihood[number] == pytest.approx(solved.likelihood[0], abs=1e-6)
        assert together.weights[number] == pytest.approx(solved.weights[0], abs=1e-6)


def test_labels_alone_decide_where_the_scores_say_nothing() -> None:
    same = np.full((1, 2, 4), 1e6)
    labelled = BinCounts(np.full((1, 4), 50.0), same, np.full((1, 4), 3.0), np.full((1, 4), 9.0))
    assert solve(labelled).weights[0, 0] == pytest.approx(0.25, abs=1e-3)


def test_a_prior_counts_as_mistakes() -> None:
    counts = BinCounts(np.zeros((1, 4)), np.ones((1, 3, 4)), np.zeros((1, 4)), np.zeros((1, 4)))
    solved = solve(counts, np.array([0.5]), np.array([0.0, 6.0, 2.0]))
    assert solved.weights[0] == pytest.approx([0.5, 0.375, 0.125])


@pytest.mark.parametrize("base_rate", [0.05, 0.5])
def test_the_number_of_bins_does_not_matter(base_rate: float) -> None:
    data = normal_mixture(3, base_rate=base_rate)
    counts = [count(data, bin_edges(data, bins)) for bins in (20, 40, 80, 200)]
    solved = [solve(own) for own in counts]
    rate, _ = base_rate_interval(counts[1], solved[1], 0.05)
    assert np.ptp([own.weights[0, 0] for own in solved]) < rate.width / 3.92  # one standard error


def test_bins_cover_all_scores_and_ties_stay_together() -> None:
    data = normal_mixture(0)
    edges = bin_edges(data, number_of_bins(data))
    counts = count(data, edges)
    assert number_of_bins(data) == round(2 * 500**0.4)
    assert (np.diff(edges) > 0).all()
    assert counts.candidates.sum() == 2_000
    assert counts.components[0].sum(axis=-1) == pytest.approx([501.0, 5_001.0, 5_001.0])
    tied = MixtureData(ScoreSample(np.r_[0.0, 1, 1, 1]), {"a": ScoreSample(np.zeros(5))}, ScoreSample(np.r_[1.0, 0]))
    assert count(tied, bin_edges(tied, 10)).candidates.tolist() == [[1.0, 1.0]]


def test_smoothing_leaves_no_bin_empty() -> None:
    full = smoothed(np.array([[[5.0, 0, 0, 5], [0, 10, 0, 0]]]))
    assert (full > 0).all()
    assert full[0].sum(axis=-1) == pytest.approx([11.0, 11.0])


def test_copied_rows_count_once() -> None:
    cells = np.random.default_rng(0).integers(0, 6, 2_000)
    assert design_effect(np.repeat(cells, 5), np.repeat(np.arange(2_000), 5), 6) == pytest.approx(5, rel=0.1)
    assert design_effect(cells, np.arange(2_000), 6) == pytest.approx(1, abs=0.1)
    assert design_effect(cells, None, 6) == 1
    assert design_effect(np.zeros(10, dtype=int), np.arange(10) // 2, 6) == 1


def test_the_design_effect_is_that_of_simulated_means() -> None:
    rng = np.random.default_rng(1)
    group, edges = np.repeat(np.arange(200), 10), np.array([-1.0, -0.3, 0.3, 1.0])
    means, effects = [], []
    for _ in range(300):
        scores = rng.normal(size=200)[group] * 0.7 + rng.normal(size=2_000) * 0.7
        cells = np.searchsorted(edges, scores)
        means.append(cells.mean())
        effects.append(design_effect(cells, group, 5))
    assert np.mean(effects) == pytest.approx(np.var(means) * 2_000 / np.var(cells), rel=0.2)


def test_a_solution_is_repeated() -> None:
    solved = Solution(np.array([[1.0, 0]]), np.ones((1, 2, 3)), np.array([2.0]))
    assert solved.repeat(3).weights.shape == (3, 2)
