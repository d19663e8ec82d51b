"""The interface that receives the progress of a running trial."""

from collections.abc import Mapping


class Record:
    """A receiver of the progress of one trial. This base class ignores what it receives.

    attributes  name -> text that the study stores with the trial
    """

    attributes: Mapping[str, str] = {}

    def epoch(self, epoch: int, loss: float) -> None:
        """Receive the mean loss per positive. The search calls this after every epoch; `epoch` counts from 1."""

    def measured(self, epoch: int, figures: Mapping[str, float]) -> None:
        """Receive the metrics that the objective measured after an epoch: name -> value."""

    def ended(self, state: str) -> None:
        """Receive the final state of a trial, complete or pruned. Any other trial ends with an exception instead."""
