"""sum (max(0, 1 + f- - f+))^2."""

from kgcore.embed.losses.base import Loss
from kgcore.registries import LOSSES


@LOSSES.register("squared_hinge")
class SquaredHinge(Loss):
    def __call__(self, positives, negatives):
        return (1 + negatives - positives.unsqueeze(-1)).clamp_min(0).square().sum()
