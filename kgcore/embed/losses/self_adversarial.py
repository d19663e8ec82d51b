"""Self-adversarial loss: corruptions with higher scores have larger weights."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from kgcore.embed.losses.base import Loss
from kgcore.embed.losses.nll import cross_entropy
from kgcore.registries import LOSSES


@LOSSES.register("self_adversarial")
class SelfAdversarial(Loss):
    """L = - sum_{+} [ log sigmoid(margin + f(t+)) + sum_{-} p(t-) log sigmoid(-f(t-) - margin) ].

    p(t-) is the softmax of alpha f(t-) over the corruptions of the positive. The gradient treats it as a constant.

    Sun et al., "RotatE", ICLR 2019, equations 4 and 5; paper, section 3. A triple with confidence c has the
    cross-entropy - c log sigmoid(margin + f) - (1 - c) log sigmoid(-margin - f) in place of the first term.

    margin  in units of the score; 3 in the published code
    alpha   inverse temperature of the weights p(t-), 0 = equal weights; 0.5 in the published code
    """

    def __init__(self, margin: float = 3.0, alpha: float = 0.5) -> None:
        self.margin, self.alpha = margin, alpha

    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        return -(logsigmoid(self.margin + positives).sum() + self._of_corruptions(corruptions))

    def of_confidences(self, positives: Tensor, corruptions: Tensor, confidences: Tensor) -> Tensor:
        return cross_entropy(self.margin + positives, confidences).sum() - self._of_corruptions(corruptions)

    def _of_corruptions(self, corruptions: Tensor) -> Tensor:
        weights = torch.softmax(self.alpha * corruptions.detach(), -1)
        return (weights * logsigmoid(-corruptions - self.margin)).sum()
