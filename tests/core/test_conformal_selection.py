"""Conformal selection: p-values by hand, their validity by simulation, Benjamini-Hochberg against scipy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, kstest

from kgcore.answer.conformal import benjamini_hochberg, conformal_p_values
from kgcore.errors import InputError


def test_p_values_by_hand(rng: np.random.Generator) -> None:
    p = conformal_p_values(np.array([5.0, 2.5, 0.0]), np.array([1.0, 2.0, 3.0]), rng)
    np.testing.assert_allclose(p, [1 / 4, 2 / 4, 4 / 4])


def test_weighted_p_values_by_hand(rng: np.random.Generator) -> None:
    weights = np.array([2.0, 1.0]), np.array([1.0, 3.0, 4.0])
    p = conformal_p_values(np.array([5.0, 1.5]), np.array([1.0, 2.0, 3.0]), rng, weights)
    np.testing.assert_allclose(p, [2 / 10, (1 + 3 + 4) / 9])


def test_ties_are_broken_at_random(rng: np.random.Generator) -> None:
    p = conformal_p_values(np.zeros(20_000), np.zeros(9), rng)
    assert p.min() >= 0.1
    assert kstest(p, "uniform", args=(0.1, 0.9)).pvalue > 0.001


def test_without_negatives_nothing_is_small(rng: np.random.Generator) -> None:
    np.testing.assert_array_equal(conformal_p_values(np.arange(3.0), np.zeros(0), rng), np.ones(3))


@pytest.mark.parametrize("decimals", [0, 1, 8])  # with many ties, with some, without
def test_p_values_of_exchangeable_candidates_are_valid(rng: np.random.Generator, decimals: int) -> None:
    p = np.array([conformal_p_values(*np.split(rng.normal(size=40).round(decimals), [1]), rng)[0] for _ in range(4000)])
    for level in (0.05, 0.1, 0.3):
        assert (p <= level).mean() <= level + 3 * np.sqrt(level * (1 - level) / len(p))
    assert (p <= 0.3).mean() > 0.25


def test_weights_correct_for_another_way_of_drawing(rng: np.random.Generator) -> None:
    def valid(weighted: bool) -> float:
        p = []
        for _ in range(3000):
            kind = (
                rng.random(300) < 0.8
            )  # four of five negatives are of the kind with low scores, one of two candidates
            negatives, own = rng.normal(size=300) - 3 * kind, rng.random(1) < 0.5
            candidate = rng.normal(size=1) - 3 * own
            weights = np.where(own, 0.5 / 0.8, 0.5 / 0.2), np.where(kind, 0.5 / 0.8, 0.5 / 0.2)
            p.append(conformal_p_values(candidate, negatives, rng, weights if weighted else None)[0])
        return float((np.array(p) <= 0.1).mean())

    assert valid(weighted=True) < 0.1 + 3 * np.sqrt(0.09 / 3000)
    assert valid(weighted=False) > 0.2


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_benjamini_hochberg_is_that_of_scipy(values: list[float], level: float) -> None:
    p = np.array(values)
    adjusted = false_discovery_control(p, method="bh")
    clear = np.abs(adjusted - level) > 1e-9
    np.testing.assert_array_equal(benjamini_hochberg(p, level)[clear], (adjusted <= level)[clear])


def test_benjamini_hochberg_of_nothing_and_wrong_levels() -> None:
    assert not len(benjamini_hochberg(np.zeros(0), 0.1))
    with pytest.raises(InputError, match="level is 1: it must be above 0 and below 1"):
        benjamini_hochberg(np.ones(2), 1.0)


@pytest.mark.parametrize("contaminated", [0.0, 0.05])
def test_the_expected_share_of_false_candidates_is_controlled(rng: np.random.Generator, contaminated: float) -> None:
    """Of 300 candidates, 60 are true. Some negatives can be true as well, as hidden facts among corruptions are."""
    shares, lengths = [], []
    for _ in range(300):
        true = np.arange(300) < 60
        negatives = rng.normal(size=400) + 4 * (rng.random(400) < contaminated)
        p = conformal_p_values(rng.normal(size=300) + 4 * true, negatives, rng)
        chosen = benjamini_hochberg(p, 0.1)
        shares.append((chosen & ~true).sum() / max(chosen.sum(), 1))
        lengths.append(chosen.sum())
    assert np.mean(shares) <= 0.1 + 2 * np.std(shares) / np.sqrt(len(shares))
    if not contaminated:
        assert np.mean(lengths) > 50  # nearly all true ones
        assert np.mean(shares) > 0.06  # 0.8 x 0.1 is expected: the level is used
