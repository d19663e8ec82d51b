"""Combiners without labels: the unbiased risk, the weights, and mistakes that no strategy resembles."""

import numpy as np
import pytest
from scipy.special import expit

from kgcore.calibrate.logistic import stack_weights
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.unlabelled import Rows, fit_unlabelled
from kgcore.mixture.goodness import unlabelled_brier

NAMES = ("score", "degree")


def rows(values: np.ndarray, start: int = 0) -> Rows:
    n = len(values)
    return Rows(values.astype(np.float32), np.zeros(n, dtype=np.int64), np.arange(start, start + n))


def draw(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """True triples have both features high; each kind of mistake has another one low."""
    centre = {"true": (1.5, 1.5), "low score": (-0.5, 1.5), "low degree": (1.5, -0.5), "far": (0.5, 5.0)}[kind]
    return rng.normal(centre, 1.0, size=(n, 2))


def data(mistakes: str, base_rate: float, rng: np.random.Generator, n: int = 2000) -> tuple[list[Rows], np.ndarray]:
    """Positives, corruptions of two kinds, candidates with one kind of mistake; and the candidates' labels."""
    labels = (rng.random(n) < base_rate).astype(np.float64)
    values = np.where(labels[:, None] == 1, draw("true", n, rng), draw(mistakes, n, rng))
    positives = rows(draw("true", 1000, rng))
    negatives = [Rows(rows(draw(kind, 1000, rng)).values, *_of(positives)) for kind in ("low score", "low degree")]
    return [positives, *negatives, rows(values, 10_000)], labels


def _of(positives: Rows) -> tuple[np.ndarray, np.ndarray]:
    return positives.predicates, positives.groups


def trees() -> BoostedTrees:
    return BoostedTrees(trees=40, leaves=8)


def test_the_brier_score_without_labels_is_that_with_labels() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(400_000) < 0.2).astype(np.float64)
    q = expit(rng.normal(2 * labels - 2, 1.0))  # not calibrated
    positives = expit(rng.normal(0.0, 1.0, 400_000))
    assert unlabelled_brier(positives, q, 0.2) == pytest.approx(np.mean((q - labels) ** 2), abs=0.002)


def test_the_weights_minimise_the_logistic_risk_without_labels() -> None:
    """The columns are the true log-odds and noise: the weights are 1 and 0, and the constant is 0."""
    rng = np.random.default_rng(0)
    n, alpha = 200_000, 0.3
    labels = (rng.random(n) < alpha).astype(np.float64)
    x = rng.normal(2 * labels, 1.0)
    true = np.log(alpha / (1 - alpha)) + 2 * x - 2
    candidates = np.column_stack([true, rng.normal(size=n)])
    x = rng.normal(2.0, 1.0, n)
    positives = np.column_stack([np.log(alpha / (1 - alpha)) + 2 * x - 2, rng.normal(size=n)])
    weights, constant = stack_weights(positives, candidates, alpha)
    assert weights[0] == pytest.approx(1.0, abs=0.05)
    assert weights[1] == pytest.approx(0.0, abs=0.02)
    assert constant == pytest.approx(0.0, abs=0.06)


@pytest.mark.parametrize(
    ("mistakes", "base_rate", "rounds"), [("low degree", 0.5, 1), ("far", 0.3, 1), ("far", 0.3, 2)]
)
def test_held_out_probabilities_are_near_those_of_labels(mistakes: str, base_rate: float, rounds: int) -> None:
    """No label is used. The mistakes are those of one strategy, or those of none."""
    rng = np.random.default_rng(1)
    known, labels = data(mistakes, base_rate, rng)
    stack, held_out = fit_unlabelled("boosted_trees", trees, NAMES, known, base_rate, 3, rng, rounds)
    candidates, q = known[-1], expit(held_out[-1])
    brier = float(np.mean((q - labels) ** 2))
    values = candidates.values.astype(np.float64)

    def density(kind: str) -> np.ndarray:
        centre = {"true": (1.5, 1.5), "low degree": (1.5, -0.5), "far": (0.5, 5.0)}[kind]
        return np.exp(-((values - centre) ** 2).sum(axis=1) / 2)

    best = base_rate * density("true")
    best = best / (best + (1 - base_rate) * density(mistakes))
    assert brier < float(np.mean((best - labels) ** 2)) + 0.012
    assert q.mean() == pytest.approx(base_rate, abs=0.03)
    assert unlabelled_brier(expit(held_out[0]), q, base_rate) == pytest.approx(brier, abs=0.02)
    of_each = 1 if rounds == 1 else 3 * rounds
    assert len(stack.members) <= (len(known) - 1) * of_each
    assert len(stack.members) % of_each == 0
    own = stack.log_odds(candidates.values, candidates.predicates)
    assert np.corrcoef(own, held_out[-1])[0, 1] > 0.9
    if mistakes == "far":
        wrong = trees().fit(_supervised(known), rng)
        misled = expit(wrong.log_odds(candidates.values, candidates.predicates))
        assert float(np.mean((misled - labels) ** 2)) > 2 * brier


def _supervised(known: list[Rows]):  # type: ignore[no-untyped-def]
    from kgcore.combiners.unlabelled import _sample

    return _sample(NAMES, known[0], known[2])
