"""Where a trial is told of while it runs."""

from collections.abc import Mapping


class Record:
    """What is told of a trial; this one keeps nothing.

    attributes  what the study is to keep of it with the trial
    """

    attributes: Mapping[str, str] = {}

    def epoch(self, epoch: int, loss: float) -> None:
        """After every epoch, from 1, with the mean loss a positive."""

    def measured(self, epoch: int, figures: Mapping[str, float]) -> None:
        """What the objective measured after that epoch."""

    def ended(self, state: str) -> None:
        """At the end of a trial that is complete or pruned; any other leaves the record with what it raises."""
