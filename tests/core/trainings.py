"""Helpers for the tests of training: compare two trainings, and interrupt a training."""

from collections.abc import Callable

import torch

from kgcore.embed.training.loop import Training

CPU = torch.device("cpu")


class StoppedError(Exception):
    """An error that a callback raises to end a training."""


def stop_at(last: int) -> Callable[[int, float], None]:
    """Return a callback that ends the training after an epoch."""

    def stop(epoch: int, loss: float) -> None:
        if epoch == last:
            raise StoppedError

    return stop


def same(a: Training, b: Training) -> bool:
    """Return whether the losses and all numbers of the models are equal."""
    return a.losses == b.losses and a.model.fingerprint() == b.model.fingerprint()
