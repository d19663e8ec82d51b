"""Negative log-likelihood of a logistic model."""

from torch import Tensor
from torch.nn.functional import softplus

from kgcore.losses.base import Loss
from kgcore.registries import LOSSES


@LOSSES.register("nll")
class NLL(Loss):
    """L = sum_{+} log(1 + exp(-f(t+))) + sum_{-} log(1 + exp(f(t-))).

    Trouillon et al., ICML 2016; paper, section 3.
    """

    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        return softplus(-positives).sum() + softplus(corruptions).sum()
