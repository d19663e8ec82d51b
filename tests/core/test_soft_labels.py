"""Soft labels: confidences in samples, baselines, metrics and losses."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.calibrate.base import Constant, ConstantByRelation
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample, soft_sample, synthetic_sample
from kgcore.calibrate.validation import score_audit
from kgcore.errors import InputError
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.classification import accuracy, best_threshold
from kgcore.measure.metrics.proper import brier, brier_parts, log_loss
from kgcore.registries import CALIBRATORS, LOSSES, METRICS
from kgcore.registry import build
from tests.core.judged import FAST, predictions
from tests.core.samples import figure, tally_of


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=4, max_size=30))
def test_a_soft_label_is_weighted_duplicates(quarters: list[float]) -> None:
    """Compare with every row repeated four times, with a share of labels 1 that is its confidence.

    Calibrators with a prior count rows, so they agree only on large samples.
    """
    c = np.array([*quarters, 0.25])
    scores = np.arange(len(c)) * 0.7 % 3
    found = soft_sample(scores, c)
    times = np.r_[4 * c, 4 - 4 * c].astype(int)
    repeated = ground_truth_sample(np.repeat(np.r_[scores, scores], times), np.repeat(np.r_[c * 0 + 1, c * 0], times))
    assert found.base_rate == pytest.approx(c.mean())
    one, other = (CALIBRATORS.get("isotonic")().fit_sample(sample).calibrate(scores) for sample in (found, repeated))
    np.testing.assert_allclose(one, other, atol=2e-5)


def test_a_calibrator_of_soft_labels_has_the_lowest_cross_entropy(rng: np.random.Generator) -> None:
    scores = rng.normal(size=400)
    c = 1 / (1 + np.exp(-1.5 * scores - 0.4 + 0.3 * rng.normal(size=400)))
    q = CALIBRATORS.get("isotonic")().fit_sample(soft_sample(scores, c)).calibrate(scores)
    order = np.argsort(scores)
    from sklearn.isotonic import IsotonicRegression

    np.testing.assert_allclose(q[order], IsotonicRegression().fit_transform(scores[order], c[order]), atol=1e-9)


def test_certain_confidences_make_the_samples_of_labels(rng: np.random.Generator) -> None:
    scores, labels = rng.normal(size=50), rng.integers(0, 2, 50).astype(float)
    soft, hard = soft_sample(scores, labels), ground_truth_sample(scores, labels)
    order = np.lexsort((np.arange(50), -labels))
    np.testing.assert_array_equal(soft.scores, hard.scores[order])
    np.testing.assert_array_equal(soft.weights, hard.weights[order])
    predicates = (np.arange(50) % 3, np.arange(100) % 3)
    made = [
        synthetic_sample(scores, rng.normal(size=100) * 0, 0.1, predicates=predicates, confidences=c)
        for c in (None, np.ones(50))
    ]
    np.testing.assert_array_equal(made[0].weights, made[1].weights)


def test_a_positive_counts_with_its_confidence_and_the_base_rate_stays(rng: np.random.Generator) -> None:
    scores, c, predicates = rng.normal(size=60), rng.uniform(0.1, 1, 60), np.arange(60) % 3
    made = synthetic_sample(
        scores, rng.normal(size=120), 0.2, predicates=(predicates, np.arange(120) % 3), confidences=c
    )
    assert made.predicates is not None
    for relation in range(3):
        assert made.part(made.predicates == relation).base_rate == pytest.approx(0.2)
    own = made.weights[:60][predicates == 1]
    np.testing.assert_allclose(own / own[0], c[predicates == 1] / c[predicates == 1][0])


def test_the_overlap_of_soft_labels_is_weighted() -> None:
    found = score_audit(soft_sample(np.array([0.0, 1.0]), np.array([0.25, 1.0])), soft=True)
    assert found["overlap"] == pytest.approx(0.25 * 0.75 / 2 / (1.25 * 0.75))


def test_the_constants_are_means_of_confidences() -> None:
    c, predicates = np.array([0.2, 0.4, 0.9, 0.7]), np.array([0, 0, 2, 2])
    sample = soft_sample(np.zeros(4), c, predicates)
    assert Constant().fit_sample(sample).calibrate(np.zeros(2)) == pytest.approx([0.55, 0.55])
    fitted = ConstantByRelation().fit_sample(sample)
    again = ConstantByRelation.from_parameters(fitted.parameters())
    for one in (fitted, again):
        assert one.calibrate_of(np.zeros(3), np.array([0, 1, 2])) == pytest.approx([0.3, 0.55, 0.8])


def test_metrics_against_confidences_by_hand() -> None:
    q, c = np.array([0.2, 0.6, 0.9]), np.array([0.3, 0.5, 1.0])
    assert brier(q, c) == pytest.approx((0.01 + 0.01 + 0.01) / 3)
    assert log_loss(q, c) == pytest.approx(-np.mean(c * np.log(q) + (1 - c) * np.log(1 - q)))
    assert accuracy(q > 0.5, c) == pytest.approx((0.7 + 0.5 + 1.0) / 3)
    assert best_threshold(q, np.array([0.4, 0.6, 0.9]), np.ones(3)) == pytest.approx(0.4)
    tally = Sample(q, c).tally()
    assert METRICS.get("mean_squared_error").figure(tally) == pytest.approx(0.01)
    assert METRICS.get("mean_absolute_error").figure(tally) == pytest.approx(0.1)


def test_all_metrics_but_the_brier_score_are_those_of_weighted_duplicates(rng: np.random.Generator) -> None:
    """Compare with every row as a true triple of weight c and a false triple of weight 1 - c."""
    q, c = rng.uniform(size=300).round(2), rng.uniform(0.01, 0.99, 300)
    soft = evaluate(replace(predictions({"a": q}, np.ones(300)), confidences=c), FAST)["a"].metrics
    twice = predictions({"a": np.r_[q, q]}, np.repeat([1.0, 0.0], 300), np.r_[c, 1 - c])
    hard = evaluate(twice, FAST)["a"].metrics
    assert soft["brier"] == pytest.approx(soft["mean_squared_error"]) == pytest.approx(np.mean((q - c) ** 2))
    assert hard["brier"] == pytest.approx(soft["brier"] + np.mean(c * (1 - c)))
    assert soft["brier_uncertainty"] == pytest.approx(np.var(c))
    parts = brier_parts(tally_of(q, c))
    assert parts.miscalibration - parts.discrimination + parts.uncertainty == pytest.approx(soft["brier"])
    assert parts.uncertainty == pytest.approx(np.var(c))
    others = set(hard) - {"brier", "brier_uncertainty", "debiased_rmsce"}  # debiasing counts rows
    for name in others:
        assert soft[name] == pytest.approx(hard[name], abs=1e-6), name


def test_the_debiased_error_is_near_0_for_the_expected_confidence() -> None:
    rng = np.random.default_rng(3)
    squares = []
    for _ in range(50):
        q = rng.uniform(0.2, 0.8, 500)
        c = q + rng.uniform(-0.2, 0.2, 500)
        squares.append(figure("debiased_rmsce")(q, c) ** 2)
    # with the variance of labels 0 and 1 it would always be 0
    assert 10 < np.count_nonzero(squares) < 40


@pytest.mark.parametrize("name", LOSSES.names())
def test_a_loss_of_confidences_of_1_is_the_loss(name: str, rng: np.random.Generator) -> None:
    loss = build(LOSSES.get(name), {})
    positives, corrupted = torch.tensor(rng.normal(size=6)), torch.tensor(rng.normal(size=(6, 4)))
    found = loss.of_confidences(positives, corrupted, torch.ones(6, dtype=torch.float64))
    assert found.item() == pytest.approx(loss(positives, corrupted).item(), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES.names())
def test_a_lower_confidence_pulls_a_score_up_less(name: str) -> None:
    loss = build(LOSSES.get(name), {})
    scores = torch.zeros(3, dtype=torch.float64).requires_grad_()
    c = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    [pull] = torch.autograd.grad(loss.of_confidences(scores, torch.zeros(3, 2, dtype=torch.float64), c), scores)
    assert pull[0] > pull[1] > pull[2]


def test_nll_of_confidences_is_the_cross_entropy() -> None:
    scores, c = torch.tensor([0.3, -2.0]), torch.tensor([0.2, 0.7])
    found = build(LOSSES.get("nll"), {}).of_confidences(scores, torch.full((2, 1), -1e4), c)
    assert found.item() == pytest.approx(
        2 * log_loss(torch.sigmoid(scores).double().numpy(), c.double().numpy()), rel=1e-5
    )


def test_a_sample_needs_more_than_one_kind_of_row() -> None:
    with pytest.raises(InputError, match="probabilities must be in"):
        soft_sample(np.zeros(2), np.array([0.5, 1.5]))
    assert isinstance(soft_sample(np.zeros(1), np.array([0.5])), CalibrationSample)
