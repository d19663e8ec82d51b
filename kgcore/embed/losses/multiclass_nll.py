"""Multiclass negative log-likelihood: a softmax over a positive and its corruptions."""

import torch
from torch import Tensor

from kgcore.embed.losses.base import Loss
from kgcore.registries import LOSSES


@LOSSES.register("multiclass_nll")
class MulticlassNLL(Loss):
    """L = - sum_{+} log( exp(f(t+)) / (exp(f(t+)) + sum_{-} exp(f(t-))) ).

    Toutanova & Chen 2015; Lacroix et al., ICML 2018; paper, section 3.
    """

    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        every = torch.cat([positives.unsqueeze(-1), corruptions], -1)
        return (torch.logsumexp(every, -1) - positives).sum()
