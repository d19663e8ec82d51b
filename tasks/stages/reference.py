"""What one stage hands to the next, and what is passed along the whole pipeline."""

from dataclasses import dataclass

from tasks.tracking.record import RunRecord


@dataclass(frozen=True)
class StageRef:
    """A finished stage: its name and its MLflow run. One stage hands nothing else to the next."""

    stage: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.stage}:{self.run_id}"


@dataclass(frozen=True)
class Context:
    """How a stage runs, as opposed to what it does: no field is part of a key.

    parent  MLflow run that the stages are nested under
    force   run even where a finished run could be re-used
    since   with force: runs that started at this time (seconds since 1970) or later may still be re-used, so that the
            cells of a grid run once what they share
    device  auto, cpu, cuda or cuda:N
    """

    parent: str | None = None
    force: bool = False
    device: str = "auto"
    since: float | None = None

    def may_reuse(self, run: RunRecord) -> bool:
        """Whether a finished run of the same key may serve."""
        return not self.force or (self.since is not None and run.started >= self.since)
