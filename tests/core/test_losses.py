"""Losses against formulas written out in NumPy."""

import numpy as np
import pytest
import torch

from kgcore.registries import LOSSES
from kgcore.registry import build


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def pairwise(pos, neg, margin=3.0):
    return sum(max(0.0, margin + n - p) for p, row in zip(pos, neg, strict=True) for n in row)


def nll(pos, neg):
    return -np.log(sigmoid(pos)).sum() - np.log(1 - sigmoid(neg)).sum()


def multiclass_nll(pos, neg):
    return -np.log(np.exp(pos) / (np.exp(pos) + np.exp(neg).sum(1))).sum()


def self_adversarial(pos, neg, margin=3.0, alpha=0.5):
    shares = np.exp(alpha * neg) / np.exp(alpha * neg).sum(1, keepdims=True)
    return -np.log(sigmoid(margin + pos)).sum() - (shares * np.log(sigmoid(-neg - margin))).sum()


FORMULA = {
    "pairwise": pairwise,
    "nll": nll,
    "multiclass_nll": multiclass_nll,
    "self_adversarial": self_adversarial,
}


@pytest.mark.parametrize("name", LOSSES.names())
def test_loss_is_its_formula(name: str, rng: np.random.Generator) -> None:
    pos, neg = rng.normal(size=5), rng.normal(size=(5, 4))
    loss = build(LOSSES.get(name), {})(torch.tensor(pos), torch.tensor(neg))
    np.testing.assert_allclose(loss.item(), FORMULA[name](pos, neg), rtol=1e-9)


@pytest.mark.parametrize("name", LOSSES.names())
def test_loss_falls_when_positives_rise_and_negatives_sink(name: str, rng: np.random.Generator) -> None:
    pos, neg = torch.tensor(rng.normal(size=5)).requires_grad_(), torch.tensor(rng.normal(size=(5, 4))).requires_grad_()
    up, down = torch.autograd.grad(build(LOSSES.get(name), {})(pos, neg), (pos, neg))
    assert (up < 0).all()
    assert (down > 0).all()


def test_no_gradient_flows_through_the_adversarial_shares() -> None:
    pos, neg = torch.zeros(1), torch.tensor([[0.0, 1.0]]).requires_grad_()
    [gradient] = torch.autograd.grad(build(LOSSES.get("self_adversarial"), {})(pos, neg), neg)
    shares = torch.softmax(0.5 * neg.detach(), -1)
    np.testing.assert_allclose(gradient, shares * torch.sigmoid(neg.detach() + 3), rtol=1e-6)


@pytest.mark.parametrize("name", LOSSES.names())
def test_loss_stays_finite_at_extreme_scores(name: str) -> None:
    for size in (-1e4, 1e4):
        loss = build(LOSSES.get(name), {})(torch.full((2,), size), torch.full((2, 3), -size))
        assert torch.isfinite(loss)
