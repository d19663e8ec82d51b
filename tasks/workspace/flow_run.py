"""The Prefect flow run that the calling code is part of. No other file reads Prefect's run context.

Code in a flow run has loaded Prefect. So a process without Prefect gets its answer without the import of Prefect, which
takes more than a second.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FlowRun:
    """A Prefect flow run.

    id          its id, a UUID
    started     when it started, in seconds since 1970
    parameters  the parameters of its flow, by name
    """

    id: str
    started: float
    parameters: Mapping[str, Any]


def current_flow_run() -> FlowRun | None:
    """Return the flow run of the calling code; None outside a flow run."""
    if "prefect.context" not in sys.modules:
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return None
    return FlowRun(str(context.flow_run.id), context.start_time.timestamp(), context.parameters or {})


def in_task() -> bool:
    """Return whether the calling code runs inside a Prefect task."""
    if "prefect.context" not in sys.modules:
        return False
    from prefect.context import TaskRunContext

    return TaskRunContext.get() is not None
