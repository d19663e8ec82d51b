"""The contract of a loss."""

from abc import ABC, abstractmethod

from torch import Tensor


class Loss(ABC):
    """From scores to a scalar. Its keyword arguments are its options, with their defaults.

    Reduction: the sum over positives; over a positive's corruptions as each loss states.
    """

    @abstractmethod
    def __call__(self, positives: Tensor, negatives: Tensor) -> Tensor:
        """Scores of positives (b,) and of their corruptions (b, eta) -> scalar, >= 0, to be minimised."""
