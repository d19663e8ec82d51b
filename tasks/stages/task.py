"""The decorator that makes a function, such as a stage, a Prefect task; and a filter for Prefect's logs."""

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from kgcore.errors import KgcalError
from tasks.workspace.flow_run import current_flow_run, in_task

P = ParamSpec("P")
T = TypeVar("T")


class _WithoutTraceback(logging.Filter):
    """A log filter. It removes the traceback of a KgcalError, which the user can correct, and keeps the message."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], KgcalError):
            record.exc_info = None
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_WithoutTraceback())


def as_task(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that makes a function a Prefect task with this name.

    Only a call directly from a flow runs the task. A call outside a flow run runs the function without Prefect, so that
    it needs no Prefect server. A call inside another task, for example in a cell of a grid, also runs the function
    without Prefect.

    Prefect's result cache is off, because kgcal re-uses the finished runs in MLflow.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.cache
        def prefect_task() -> Callable[P, T]:
            from prefect import task  # a flow run has loaded Prefect
            from prefect.cache_policies import NO_CACHE

            return task(name=name, cache_policy=NO_CACHE)(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            directly_in_flow = current_flow_run() and not in_task()
            return (prefect_task() if directly_in_flow else function)(*args, **kwargs)

        return call

    return decorate
