"""The contract of a loss."""

from abc import ABC, abstractmethod

from torch import Tensor


class Loss(ABC):
    """Maps scores to a scalar. Its keyword arguments are its options, with their defaults.

    Reduction: the sum over positives; each loss states how it combines the corruptions of a positive.
    """

    @abstractmethod
    def __call__(self, positives: Tensor, corruptions: Tensor) -> Tensor:
        """Scores of positives (b,) and of their corruptions (b, eta) -> scalar, >= 0, to be minimised."""
