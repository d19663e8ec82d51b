"""Pairwise margin loss."""

from torch import Tensor

from kgcore.embed.losses.base import Loss
from kgcore.registries import LOSSES


@LOSSES.register("pairwise")
class Pairwise(Loss):
    """L = sum_{+} sum_{-} max(0, margin + f(t-) - f(t+)).

    Bordes et al., NIPS 2013; paper, section 3.

    margin  above 0, in units of the score
    """

    def __init__(self, margin: float = 3.0) -> None:
        self.margin = margin

    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        return (self.margin + corruptions - positives.unsqueeze(-1)).clamp_min(0).sum()
