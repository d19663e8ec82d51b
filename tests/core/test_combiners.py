"""Combiners: properties of every registered one, and log-odds and contributions against second formulas."""

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from kgcore.arrays import Floats
from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.fit import cross_fit
from kgcore.combiners.joined import Stack
from kgcore.errors import FitError
from kgcore.registries import COMBINERS, MADE_OF_FITTED
from tests.docs.scripts import script

NAMES = ("score", "degree", "overlap", "constant")


def sample_of(seed: int, n: int = 600) -> EvidenceSample:
    """A sample in which score, degree and predicate matter, with ties, missing values and a rare predicate."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 4)).astype(np.float32)
    values[:, 1] = np.round(2 * values[:, 1])
    values[rng.random(n) < 0.1, 2] = np.nan
    values[:, 3] = 3.0
    predicates = rng.choice([0, 2, 7, 9], n, p=[0.5, 0.3, 0.195, 0.005])
    log_odds = 1.5 * values[:, 0] - 0.5 * values[:, 1] + (predicates == 2)
    labels = (rng.random(n) < expit(log_odds)).astype(float)
    return EvidenceSample(NAMES, values, labels, np.ones(n), predicates)


NAMES_OF_ALL = list(COMBINERS.without(MADE_OF_FITTED).names())


def quick(name: str) -> Combiner:
    return BoostedTrees(trees=12) if name == "boosted_trees" else COMBINERS.get(name)()


@pytest.fixture(scope="module")
def fitted() -> dict[str, Combiner]:
    return {name: quick(name).fit(sample_of(0), np.random.default_rng(1)) for name in NAMES_OF_ALL}


every = pytest.mark.parametrize("name", NAMES_OF_ALL)


@every
def test_log_odds_do_not_fall_in_the_score(name: str, fitted: dict[str, Combiner]) -> None:
    sample = sample_of(2, 50)
    grid = np.sort(np.r_[np.linspace(-4, 4, 41), sample_of(0).values[:40, 0]])
    rows = np.repeat(sample.values, len(grid), axis=0)
    rows[:, 0] = np.tile(grid, len(sample))
    found = fitted[name].log_odds(rows, np.repeat(sample.predicates, len(grid))).reshape(len(sample), -1)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found[:, -1] > found[:, 0] + 1).all()


@every
def test_a_row_has_the_same_log_odds_in_any_block(name: str, fitted: dict[str, Combiner]) -> None:
    sample = sample_of(3)
    whole = fitted[name].log_odds(sample.values, sample.predicates)
    for rows in (np.arange(1), np.arange(7), np.arange(100, 593), np.arange(600)[::-1], np.arange(0)):
        assert np.array_equal(fitted[name].log_odds(sample.values[rows], sample.predicates[rows]), whole[rows])


@every
def test_parameters_are_json_and_give_the_same_log_odds(name: str, fitted: dict[str, Combiner]) -> None:
    sample = sample_of(4)
    read = COMBINERS.get(name).from_parameters(json.loads(json.dumps(fitted[name].parameters())))
    assert np.array_equal(
        read.log_odds(sample.values, sample.predicates), fitted[name].log_odds(sample.values, sample.predicates)
    )
    expected, found = (own.contributions(sample.values, sample.predicates) for own in (fitted[name], read))
    assert found[0] == expected[0]
    assert np.array_equal(found[1], expected[1])


@every
def test_contributions_add_up_to_the_log_odds(name: str, fitted: dict[str, Combiner]) -> None:
    """Also for predicates and missing values that the fit has not seen."""
    sample = sample_of(5, 100)
    sample.values[:20], sample.values[20, 0], sample.values[21, 1] = np.nan, np.inf, -np.inf
    sample.predicates[::3] = 11
    constant, found = fitted[name].contributions(sample.values, sample.predicates)
    assert found.shape == (100, 5)
    log_odds = fitted[name].log_odds(sample.values, sample.predicates)
    np.testing.assert_allclose(constant + found.sum(axis=1), log_odds, rtol=0, atol=1e-9)
    assert (found[20:, 3] == 0).all()  # a constant feature
    assert np.abs(found[:, 0]).mean() > np.abs(found[:, 2]).mean()


@every
def test_weights_move_the_log_odds_to_the_base_rate(name: str, fitted: dict[str, Combiner]) -> None:
    """Negatives that stand for 1,000 each: the fit is the same, and the log-odds are ln 1,000 lower."""
    sample = sample_of(0)
    weights = np.where(sample.labels == 1, 1.0, 1000.0)
    rare = EvidenceSample(NAMES, sample.values, sample.labels, weights / weights.mean(), sample.predicates)
    found = quick(name).fit(rare, np.random.default_rng(1)).log_odds(sample.values, sample.predicates)
    expected = fitted[name].log_odds(sample.values, sample.predicates) - math.log(1000)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@every
def test_one_label_is_an_error(name: str) -> None:
    sample = sample_of(0)
    with pytest.raises(FitError, match="positives only"):
        quick(name).fit(sample.part(sample.labels == 1), np.random.default_rng(0))


@every
def test_weights_count_rows(name: str) -> None:
    """Rows of weight 2 have about the effect of rows that are there twice."""
    sample = sample_of(6)
    twice = np.r_[np.arange(600), np.flatnonzero(sample.values[:, 0] > 0)]
    weights = np.where(sample.values[:, 0] > 0, 2.0, 1.0)
    weighted = EvidenceSample(NAMES, sample.values, sample.labels, weights / weights.mean(), sample.predicates)
    found = [
        quick(name).fit(own, np.random.default_rng(1)).log_odds(sample.values, sample.predicates)
        for own in (weighted, sample.part(twice), sample)
    ]
    assert np.corrcoef(found[0], found[1])[0, 1] > 0.97
    assert np.abs(found[0] - found[1]).mean() < 0.3


@pytest.mark.parametrize("seed", [0, 1])
def test_trees_are_the_same_for_any_number_of_threads(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sample, settings, fits = sample_of(seed), BoostedTrees._settings, []
    for threads in (1, 2, 2):
        given = {"num_threads": threads}
        monkeypatch.setattr(BoostedTrees, "_settings", lambda *args, given=given: settings(*args) | given)
        fits.append(BoostedTrees(trees=6).fit(sample, np.random.default_rng(seed)))
    first, *others = (fit.log_odds(sample.values, sample.predicates) for fit in fits)
    assert all(np.array_equal(first, other) for other in others)


def test_a_feature_that_only_one_row_knows_does_not_stop_the_fit() -> None:
    """A fold without this row has no number in the column."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(200, 2)).astype(np.float32)
    values[1:, 1] = np.nan
    labels = (values[:, 0] > 0).astype(np.float64)
    sample = EvidenceSample(("score", "rare"), values, labels, np.ones(200), np.zeros(200, dtype=np.int64))
    found = BoostedTrees(most_trees=5).fit(sample, rng).log_odds(values, sample.predicates)
    assert np.isfinite(found).all()


def expectation(node: dict[str, Any], row: Floats, known: set[int]) -> float:
    """The expected value below a node if the features `known` are known: Lundberg et al. 2018, algorithm 1."""
    if "leaf_value" in node:
        return float(node["leaf_value"])
    children = node["left_child"], node["right_child"]
    feature, threshold = node["split_feature"], node["threshold"]
    if feature in known:
        left = row[feature] in map(int, threshold.split("||")) if feature == 3 else row[feature] <= threshold
        return expectation(children[0 if left else 1], row, known)
    counts = [child.get("internal_count", child.get("leaf_count")) for child in children]
    below = [expectation(child, row, known) for child in children]
    return sum(count * value for count, value in zip(counts, below, strict=True)) / sum(counts)


def test_contributions_equal_shapley_values_over_all_subsets() -> None:
    sample = sample_of(7, 300)
    chosen = EvidenceSample(NAMES[:3], sample.values[:, [0, 1, 2]], sample.labels, sample.weights, sample.predicates)
    fitted = BoostedTrees(trees=3, leaves=12, fewest=5).fit(chosen, np.random.default_rng(0))
    rows = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    predicates = np.random.default_rng(1).choice([0, 2, 7], 20)
    constant, found = fitted.contributions(rows, predicates)
    trees = [tree["tree_structure"] for tree in fitted.booster_.dump_model()["tree_info"]]
    paths = [split.feature for split in fitted.forest_.splits]
    assert set(paths) == {0, 1, 2, 3}
    assert len(paths) > 3 * 4  # so a path tests a feature twice

    def worth(row: Floats, known: tuple[int, ...]) -> float:
        return fitted.shift_ + sum(expectation(tree, row, set(known)) for tree in trees)

    columns = np.column_stack([rows, np.searchsorted([0, 2, 7], predicates)])
    assert constant == pytest.approx(worth(columns[0], ()), abs=1e-12)
    for row, shares in zip(columns, found, strict=True):
        for feature in range(4):
            others = [other for other in range(4) if other != feature]
            sets = [known for size in range(4) for known in itertools.combinations(others, size)]
            expected = sum(
                (worth(row, (*known, feature)) - worth(row, known)) / (4 * math.comb(3, len(known))) for known in sets
            )
            assert shares[feature] == pytest.approx(expected, abs=1e-12)


def test_folds_keep_groups_together_and_share_the_labels() -> None:
    labels = np.tile([1.0, 0, 0, 0], 50)
    groups = np.repeat(np.arange(50), 4)
    sample = EvidenceSample(
        ("score",), np.zeros((200, 1), np.float32), labels, np.ones(200), np.zeros(200, int), groups
    )
    fold = sample.folds(5, np.random.default_rng(0))
    assert all(len(np.unique(fold[groups == group])) == 1 for group in range(50))
    assert np.bincount(fold, labels).tolist() == [10] * 5
    assert np.array_equal(fold, sample.folds(5, np.random.default_rng(0)))


@pytest.mark.parametrize("rounds", [1, 3])
def test_cross_fitted_log_odds_know_nothing_of_their_row(rounds: int) -> None:
    """Each positive has a copy of itself as negative in another row: a leak would tell them apart."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 4)).astype(np.float32)
    labels = (np.arange(400) % 2).astype(float)
    sample = EvidenceSample(NAMES, values, labels, np.ones(400), np.zeros(400, dtype=np.int64))
    combiner, _, log_odds = cross_fit("boosted_trees", BoostedTrees(trees=30), sample, rng, rounds=rounds)
    inside = combiner.log_odds(values, sample.predicates)
    assert inside[labels == 1].mean() - inside[labels == 0].mean() > 0.4
    assert abs(log_odds[labels == 1].mean() - log_odds[labels == 0].mean()) < 0.25


def test_with_several_rounds_the_mean_of_the_combiners_of_all_folds_answers() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 4)).astype(np.float32)
    labels = (values[:, 1] + rng.normal(size=300) > 0).astype(float)
    sample = EvidenceSample(NAMES, values, labels, np.ones(300), np.zeros(300, dtype=np.int64))
    combiner, kind, log_odds = cross_fit("boosted_trees", BoostedTrees(trees=10), sample, rng, folds=3, rounds=2)
    assert isinstance(combiner, Stack)
    assert kind == "stack"
    members = [member.log_odds(values, sample.predicates) for member in combiner.members]
    assert len(members) == 6
    np.testing.assert_allclose(combiner.log_odds(values, sample.predicates), np.mean(members, axis=0), rtol=1e-12)
    one_of_each_round = [(first + second) / 2 for first in members[:3] for second in members[3:]]
    assert np.abs(np.array(one_of_each_round) - log_odds).min(axis=0).max() < 1e-12


def test_intervals_cover_with_cross_fitted_log_odds_only() -> None:
    """True probabilities are known: a calibrator that is fitted to the combiner's own rows is too sure."""
    simulation = script("cross_fitted")
    sample, _ = simulation.draw(800, np.random.default_rng(0))
    new, q = simulation.draw(4000, np.random.default_rng(1))
    combiner, _, log_odds = cross_fit("boosted_trees", BoostedTrees(trees=30), sample, np.random.default_rng(2))
    inside, found = (combiner.log_odds(own.values, own.predicates) for own in (sample, new))
    _, own_error, own_cover, _ = simulation.measure(sample, inside, new, found, q)
    _, error, cover, _ = simulation.measure(sample, log_odds, new, found, q)
    assert cover > 0.95 > 0.9 > own_cover
    assert error < 0.05 < own_error
