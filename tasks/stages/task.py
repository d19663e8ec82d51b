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
    """Shortens a user's mistake in Prefect's logs to its sentence."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and isinstance(record.exc_info[1], KgcalError):
            record.exc_info = None
        return True


for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_WithoutTraceback())


def as_task(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator: the function is a Prefect task of that name when a flow run calls it directly.

    Elsewhere it is called as it is: outside a flow run, so that no Prefect server is started, and inside another task,
    such as a cell of a grid. Prefect's result cache is off: MLflow is the cache.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        prefect_task = task(name=name, cache_policy=NO_CACHE)(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            directly_in_flow = current_flow_run() and not in_task()
            return (prefect_task if directly_in_flow else function)(*args, **kwargs)

        return call

    return decorate
