"""What the tests of training share: a comparison of two trainings, and an interruption."""

from collections.abc import Callable

import torch

from kgcore.training.loop import Training

CPU = torch.device("cpu")


class StoppedError(Exception):
    """Ends a training from a callback."""


def stop_at(last: int) -> Callable[[int, float], None]:
    """A callback that ends the training after an epoch."""

    def stop(epoch: int, loss: float) -> None:
        if epoch == last:
            raise StoppedError

    return stop


def same(a: Training, b: Training) -> bool:
    """Whether the losses and all numbers of the models are equal."""
    return a.losses == b.losses and a.model.fingerprint() == b.model.fingerprint()
