"""The base class of training losses."""

from abc import ABC, abstractmethod

from torch import Tensor


class Loss(ABC):
    """A function that maps scores to a scalar. The keyword arguments of its constructor are its options.

    A loss is a sum over the positives. Each loss states how it combines the corruptions of a positive.
    """

    @abstractmethod
    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        """Return the loss, at least 0, from the scores of positives (b,) and of their corruptions (b, eta)."""
