"""StageRef, the reference to a finished stage, and Context, the options that all stages of a pipeline share."""

from dataclasses import dataclass

from tasks.tracking.record import RunRecord


@dataclass(frozen=True)
class StageRef:
    """A reference to a finished stage: its name and the id of its MLflow run. Stages pass references, not data."""

    stage: str
    run_id: str

    def __str__(self) -> str:
        return f"{self.stage}:{self.run_id}"


@dataclass(frozen=True)
class Context:
    """Options for how stages run. They do not change results, so they are not part of a key.

    parent  id of the MLflow run that the stages are nested under; None: the stages are not nested
    force   run the stage even if a finished run could be re-used
    since   only with `force`: time in seconds since 1970. Runs that started at this time or later are still re-used, so
            that cells of a grid run a stage only once if they share it
    device  auto, cpu, cuda or cuda:N
    """

    parent: str | None = None
    force: bool = False
    device: str = "auto"
    since: float | None = None

    def may_reuse(self, run: RunRecord) -> bool:
        """Return whether these options allow the re-use of a finished run with the same key."""
        return not self.force or (self.since is not None and run.started >= self.since)
