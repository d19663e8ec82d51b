"""Losses, compared with formulas written out in NumPy."""

import numpy as np
import pytest
import torch

from kgcore.registries import LOSSES
from kgcore.registry import build


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def pairwise(positives, corrupted, margin=3.0):
    return sum(max(0.0, margin + c - p) for p, row in zip(positives, corrupted, strict=True) for c in row)


def nll(positives, corrupted):
    return -np.log(sigmoid(positives)).sum() - np.log(1 - sigmoid(corrupted)).sum()


def multiclass_nll(positives, corrupted):
    return -np.log(np.exp(positives) / (np.exp(positives) + np.exp(corrupted).sum(1))).sum()


def self_adversarial(positives, corrupted, margin=3.0, alpha=0.5):
    weights = np.exp(alpha * corrupted) / np.exp(alpha * corrupted).sum(1, keepdims=True)
    return -np.log(sigmoid(margin + positives)).sum() - (weights * np.log(sigmoid(-corrupted - margin))).sum()


def confidence(positives, corrupted):
    return -np.log(sigmoid(positives)).sum() - 0.1 * np.log(1 - sigmoid(corrupted)).mean(1).sum()


FORMULA = {
    "confidence": confidence,
    "pairwise": pairwise,
    "nll": nll,
    "multiclass_nll": multiclass_nll,
    "self_adversarial": self_adversarial,
}


@pytest.mark.parametrize("name", LOSSES.names())
def test_the_loss_equals_its_formula(name: str, rng: np.random.Generator) -> None:
    positives, corrupted = rng.normal(size=5), rng.normal(size=(5, 4))
    loss = build(LOSSES.get(name), {})(torch.tensor(positives), torch.tensor(corrupted))
    np.testing.assert_allclose(loss.item(), FORMULA[name](positives, corrupted), rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES.names())
def test_the_loss_falls_as_positives_rise_and_corruptions_fall(name: str, rng: np.random.Generator) -> None:
    positives, corrupted = (
        torch.tensor(rng.normal(size=5)).requires_grad_(),
        torch.tensor(rng.normal(size=(5, 4))).requires_grad_(),
    )
    up, down = torch.autograd.grad(build(LOSSES.get(name), {})(positives, corrupted), (positives, corrupted))
    assert (up < 0).all()
    assert (down > 0).all()


def test_no_gradient_flows_through_the_adversarial_weights() -> None:
    positives, corrupted = torch.zeros(1), torch.tensor([[0.0, 1.0]]).requires_grad_()
    [gradient] = torch.autograd.grad(build(LOSSES.get("self_adversarial"), {})(positives, corrupted), corrupted)
    weights = torch.softmax(0.5 * corrupted.detach(), -1)
    np.testing.assert_allclose(gradient, weights * torch.sigmoid(corrupted.detach() + 3), rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES.names())
def test_the_loss_is_finite_at_extreme_scores(name: str) -> None:
    for size in (-1e4, 1e4):
        loss = build(LOSSES.get(name), {})(torch.full((2,), size), torch.full((2, 3), -size))
        assert torch.isfinite(loss)
