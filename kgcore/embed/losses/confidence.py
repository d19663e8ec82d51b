"""Cross-entropy with confidences: the score learns how sure the source is of a triple."""

from torch import Tensor
from torch.nn.functional import softplus

from kgcore.embed.losses.base import Loss
from kgcore.embed.losses.nll import cross_entropy
from kgcore.registries import LOSSES


@LOSSES.register("confidence")
class Confidence(Loss):
    """L = sum_{+} [ c log(1 + exp(-f(t+))) + (1 - c) log(1 + exp(f(t+))) ] + v sum_{+} mean_{-} log(1 + exp(f(t-))).

    c is the confidence of the triple t+, in [0, 1]; without confidences it is 1. The first part alone makes sigmoid(f)
    the expected confidence of a stored triple. The second part lowers the scores of corruptions, so that the model can
    also tell stored triples from others. Chen et al., "UKGE", AAAI 2019, fit confidences by squared error.

    corruptions  v, at least 0: the weight of all corruptions of a triple together, where a triple has the weight 1
    """

    def __init__(self, corruptions: float = 0.1) -> None:
        self.weight = corruptions

    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        return softplus(-positives).sum() + self._of_corruptions(corruptions)

    def of_confidences(self, positives: Tensor, corruptions: Tensor, confidences: Tensor) -> Tensor:
        return cross_entropy(positives, confidences).sum() + self._of_corruptions(corruptions)

    def _of_corruptions(self, corruptions: Tensor) -> Tensor:
        losses = softplus(corruptions)
        return self.weight * (losses.sum(-1) / (losses > 0).sum(-1).clamp(min=1)).sum()  # 0: it does not count
