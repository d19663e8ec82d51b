"""Negative log-likelihood of a logistic model."""

from torch import Tensor
from torch.nn.functional import softplus

from kgcore.embed.losses.base import Loss
from kgcore.registries import LOSSES


@LOSSES.register("nll")
class NLL(Loss):
    """L = sum_{+} log(1 + exp(-f(t+))) + sum_{-} log(1 + exp(f(t-))).

    Trouillon et al., ICML 2016; paper, section 3. A triple with confidence c has the cross-entropy
    c log(1 + exp(-f)) + (1 - c) log(1 + exp(f)) in place of the first term.
    """

    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        return softplus(-positives).sum() + softplus(corruptions).sum()

    def of_confidences(self, positives: Tensor, corruptions: Tensor, confidences: Tensor) -> Tensor:
        return cross_entropy(positives, confidences).sum() + softplus(corruptions).sum()


def cross_entropy(scores: Tensor, confidences: Tensor) -> Tensor:
    """Return c log(1 + exp(-f)) + (1 - c) log(1 + exp(f)) (b,) for scores f (b,) and confidences c (b,) in [0, 1]."""
    return softplus(-scores) + (1 - confidences) * scores
