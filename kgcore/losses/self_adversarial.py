"""Self-adversarial loss: harder corruptions weigh more."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from kgcore.losses.base import Loss
from kgcore.registries import LOSSES


@LOSSES.register("self_adversarial")
class SelfAdversarial(Loss):
    """L = - sum_{+} [ log sigmoid(margin + f(t+)) + sum_{-} p(t-) log sigmoid(-f(t-) - margin) ],
    p(t-) = softmax over the positive's corruptions of alpha f(t-), taken as constant (no gradient).

    Sun et al., "RotatE", ICLR 2019, equations 4 and 5; paper, section 3. margin 3, alpha 0.5 in the published code.
    """

    def __init__(self, margin: float = 3.0, alpha: float = 0.5) -> None:
        self.margin, self.alpha = margin, alpha

    def __call__(self, positives: Tensor, negatives: Tensor) -> Tensor:
        shares = torch.softmax(self.alpha * negatives.detach(), -1)
        hard = (shares * logsigmoid(-negatives - self.margin)).sum()
        return -(logsigmoid(self.margin + positives).sum() + hard)
