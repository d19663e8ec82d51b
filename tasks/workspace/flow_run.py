"""The Prefect flow run that the calling code is part of. No other file reads Prefect's run context."""

from dataclasses import dataclass

from prefect.context import FlowRunContext, TaskRunContext


@dataclass(frozen=True)
class FlowRun:
    """A Prefect flow run.

    id       its id, a UUID
    started  when it started, in seconds since 1970
    """

    id: str
    started: float


def current_flow_run() -> FlowRun | None:
    """Return the flow run of the calling code; None outside a flow run."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return None
    return FlowRun(str(context.flow_run.id), context.start_time.timestamp())


def in_task() -> bool:
    """Return whether the calling code runs inside a Prefect task."""
    return TaskRunContext.get() is not None
