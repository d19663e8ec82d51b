"""Stages as Prefect tasks."""

import functools
import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE

from kgcore.errors import KgcalError
from tasks.workspace.flow_run import current_flow_run, in_task

P = ParamSpec("P")
T = TypeVar("T")


class _WithoutTraceback(logging.Filter):
    """Removes the traceback of a user's error from Prefect's logs, and keeps its message."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], KgcalError):
            record.exc_info = None
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_WithoutTraceback())


def as_task(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator that makes a function a Prefect task of that name, for direct calls from a flow run.

    Other calls run the plain function: calls outside a flow run, and calls inside another task, for example in a cell
    of a grid. Calls outside a flow run need no Prefect server.

    Prefect's result cache is off because MLflow is the cache.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        prefect_task = task(name=name, cache_policy=NO_CACHE)(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            directly_in_flow = current_flow_run() and not in_task()
            return (prefect_task if directly_in_flow else function)(*args, **kwargs)

        return call

    return decorate
