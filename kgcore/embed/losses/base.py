"""The base class of training losses."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

NO_CORRUPTION = -1e4  # the score of an ignored corruption: so low that it adds nothing to any loss or gradient


class Loss(ABC):
    """A function that maps scores to a scalar. The keyword arguments of its constructor are its options.

    A loss is a sum over the positives. Each loss states how it combines the corruptions of a positive.
    """

    @abstractmethod
    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        """Return the loss, at least 0, from the scores of positives (b,) and of their corruptions (b, eta)."""

    def of_confidences(self, positives: Tensor, corruptions: Tensor, confidences: Tensor) -> Tensor:
        """Return the loss of positives with confidences c (b,) in [0, 1]: sum_i c_i L(f(t_i), corruptions of t_i).

        With confidences of 1 it is the loss. A loss of single triples overrides this: it takes a triple as c of a true
        one and 1 - c of a false one, so that the score also learns that a low confidence is low.
        """
        each = torch.vmap(self)(positives.unsqueeze(-1), corruptions.unsqueeze(-2))
        return (confidences * each).sum()
