"""Combiners: trees as arrays against scikit-learn, exact contributions against brute force, and the contract."""

import json
from itertools import chain, combinations
from math import factorial

import numpy as np
import pytest

from kgcore.combiners.base import Combiner, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.combined import Combined
from kgcore.combiners.cross_fit import cross_fit, folds_of
from kgcore.combiners.stack import Stack
from kgcore.combiners.trees import Trees
from kgcore.errors import MismatchError
from kgcore.evidence.table import Evidence, TableEvidence
from kgcore.registries import COMBINERS

NAMES = ("score", "degree", "paths")
FITTED = tuple(name for name in COMBINERS.names() if name != "stack")


def sample(n: int = 600, seed: int = 0) -> EvidenceSample:
    """Triples whose log-odds are known: the score counts, one feature counts where the other is high, some are NaN."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3)).astype(np.float32)
    predicates = rng.integers(0, 4, n)
    z = 1.5 * values[:, 0] + values[:, 1] * (values[:, 2] > 0) + 0.5 * (predicates - 1.5)
    labels = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(np.float64)
    values[rng.random(n) < 0.1, 2] = np.nan
    return EvidenceSample(NAMES, values, labels, np.ones(n), predicates)


@pytest.fixture(scope="module")
def fitted() -> dict[str, Combiner]:
    found = {name: COMBINERS.get(name)().fit(sample(), np.random.default_rng(0)) for name in FITTED}
    pair = tuple(found.values())[:1] * 2
    return found | {"stack": Stack((FITTED[0],) * 2, pair, (0.5, 0.25), 0.1)}


def test_trees_give_the_sums_of_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    models: list[HistGradientBoostingClassifier] = []
    fit = HistGradientBoostingClassifier.fit

    def spy(self: HistGradientBoostingClassifier, *given: object) -> object:
        models.append(self)
        return fit(self, *given)

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", spy)
    data = sample()
    made = BoostedTrees(iterations=30).fit(data, np.random.default_rng(0))
    theirs = models[0].decision_function(made._columns(data.values, data.predicates))
    np.testing.assert_allclose(made.log_odds(data.values, data.predicates), theirs, atol=1e-12)


def test_contributions_are_the_shapley_values_of_the_expected_sums() -> None:
    """Each of four features, by the definition: the mean gain over all orders in which features become known."""
    data = sample(200)
    made = BoostedTrees(iterations=5, leaves=7).fit(data, np.random.default_rng(0))
    trees, columns = made.trees_, made._columns(data.values[:8], data.predicates[:8])
    constant, found = trees.contributions(columns)
    d = columns.shape[1]
    for row, own in zip(columns, found, strict=True):
        assert constant == pytest.approx(_expected(trees, row, frozenset()))
        for j in range(d):
            others = [i for i in range(d) if i != j]
            sets = chain.from_iterable(combinations(others, size) for size in range(d))
            value = sum(
                factorial(len(known))
                * factorial(d - len(known) - 1)
                / factorial(d)
                * (_expected(trees, row, frozenset(known) | {j}) - _expected(trees, row, frozenset(known)))
                for known in sets
            )
            assert own[j] == pytest.approx(value, abs=1e-12)


def _expected(trees: Trees, row: np.ndarray, known: frozenset[int]) -> float:
    def below(node: int) -> float:
        feature = trees.features[node]
        if feature < 0:
            return float(trees.values[node])
        left, right = int(trees.left[node]), int(trees.right[node])
        if feature in known:
            value = float(row[feature])
            goes_left = trees.missing[node] if np.isnan(value) else value <= trees.thresholds[node]
            return below(left if goes_left else right)
        share = trees.cover[left] / trees.cover[node]
        return float(share * below(left) + (1 - share) * below(right))

    return sum(below(root) for root in trees.roots.tolist())


@pytest.mark.parametrize("name", [*FITTED, "stack"])
def test_a_combiner_keeps_its_contract(name: str, fitted: dict[str, Combiner]) -> None:
    combiner, data = fitted[name], sample(300, seed=1)
    z = combiner.log_odds(data.values, data.predicates)
    again = COMBINERS.get(name).from_parameters(json.loads(json.dumps(combiner.parameters())))
    assert (again.log_odds(data.values, data.predicates) == z).all()
    alone = [combiner.log_odds(data.values[i : i + 1], data.predicates[i : i + 1])[0] for i in range(20)]
    assert (np.array(alone) == z[:20]).all()
    assert len(combiner.log_odds(data.values[:0], data.predicates[:0])) == 0
    unseen = combiner.log_odds(data.values[:1], np.array([99]))
    assert np.isfinite(unseen).all()
    constant, parts = combiner.contributions(data.values[:20], data.predicates[:20])
    np.testing.assert_allclose(constant + parts.sum(axis=1), z[:20], atol=1e-9)
    higher = data.values.copy()
    higher[:, 0] += 0.7
    assert (combiner.log_odds(higher, data.predicates) >= z).all()


@pytest.mark.parametrize("name", FITTED)
def test_a_combiner_learns_what_the_score_does_not_know(name: str) -> None:
    fitted = COMBINERS.get(name)().fit(sample(3000), np.random.default_rng(0))
    data = sample(4000, seed=2)

    def brier(z: np.ndarray) -> float:
        return float(np.mean((1 / (1 + np.exp(-z)) - data.labels) ** 2))

    alone = 1.5 * data.values[:, 0].astype(np.float64)
    assert brier(fitted.log_odds(data.values, data.predicates)) < brier(alone) - 0.005


@pytest.mark.parametrize("name", FITTED)
def test_weights_state_the_base_rate(name: str) -> None:
    data = sample(2000, seed=3)
    weights = np.where(data.labels == 1, 0.02, 1.0)
    rare = EvidenceSample(data.names, data.values, data.labels, weights / weights.mean(), data.predicates)
    q = 1 / (
        1 + np.exp(-COMBINERS.get(name)().fit(rare, np.random.default_rng(0)).log_odds(data.values, data.predicates))
    )
    share = float(np.average(data.labels, weights=weights))
    assert float(np.average(q, weights=weights)) == pytest.approx(share, rel=0.15)


def test_held_out_log_odds_are_of_a_combiner_that_has_not_seen_the_row() -> None:
    data = sample(400)
    shuffled = np.random.default_rng(1).permutation(data.labels)  # nothing can be learned
    noise = EvidenceSample(data.names, data.values, shuffled, data.weights, data.predicates)
    combiner, z = cross_fit(BoostedTrees, noise, 4, np.random.default_rng(2))
    of_true, of_false = z[shuffled == 1], z[shuffled == 0]
    assert (of_true[:, None] > of_false[None]).mean() < 0.6  # AUROC
    seen = combiner.log_odds(data.values, data.predicates)
    assert (seen[shuffled == 1][:, None] > seen[shuffled == 0][None]).mean() > 0.7


def test_folds_have_the_same_shares_of_labels() -> None:
    labels = np.r_[np.ones(10), np.zeros(30)]
    part = folds_of(labels, 5, np.random.default_rng(0))
    assert np.bincount(part[labels == 1]).tolist() == [2] * 5
    assert np.bincount(part[labels == 0]).tolist() == [6] * 5


def test_other_evidence_is_refused(fitted: dict[str, Combiner]) -> None:
    combined = Combined(FITTED[0], ("score",), NAMES, "model", fitted[FITTED[0]], FITTED[0])
    assert Combined.from_json(json.loads(json.dumps(combined.to_json()))).fingerprint() == combined.fingerprint()
    other = Evidence(("score", "paths", "degree"), sample(5).values)
    with pytest.raises(MismatchError, match="the evidence score, degree, paths, but it is given score, paths"):
        combined.scores(other, np.zeros(5, dtype=np.int64))


def test_evidence_of_a_table_is_found_by_row() -> None:
    known = TableEvidence(
        np.array([1, 3, 4]), Evidence(("score",), np.array([[10], [30], [40]], np.float32)), ("score",)
    )
    assert known.at(np.array([False, True, False, False, True])).values.ravel().tolist() == [10, 40]
    with pytest.raises(MismatchError, match="1 rows of the score table have no evidence"):
        known.at(np.array([False, True, True, False, False]))
