"""References to finished stages, and the context that a whole pipeline shares."""

from dataclasses import dataclass

from tasks.tracking.record import RunRecord


@dataclass(frozen=True)
class StageRef:
    """A finished stage: its name and its MLflow run. Stages pass only references to each other."""

    stage: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.stage}:{self.run_id}"


@dataclass(frozen=True)
class Context:
    """How stages run. No field changes a result, and none is part of a key.

    parent  MLflow run that the stages are nested under; None: the top level
    force   run the stage even if a finished run could be re-used
    since   with `force`: re-use runs that started at this time or later, in seconds since 1970. The cells of a grid
            then run their shared stages once
    device  auto, cpu, cuda or cuda:N
    """

    parent: str | None = None
    force: bool = False
    device: str = "auto"
    since: float | None = None

    def may_reuse(self, run: RunRecord) -> bool:
        """Return whether a finished run of the same key may be re-used."""
        return not self.force or (self.since is not None and run.started >= self.since)
