"""The receiver of a trial's progress while the trial runs."""

from collections.abc import Mapping


class Record:
    """Receives the progress of one trial. This base class keeps nothing.

    attributes  texts that the study keeps with the trial
    """

    attributes: Mapping[str, str] = {}

    def epoch(self, epoch: int, loss: float) -> None:
        """Called after every epoch, counted from 1, with the mean loss per positive."""

    def measured(self, epoch: int, figures: Mapping[str, float]) -> None:
        """Called with the figures that the objective measured after that epoch."""

    def ended(self, state: str) -> None:
        """Called at the end of a complete or pruned trial. Any other trial ends with an exception."""
