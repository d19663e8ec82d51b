"""Prefect task runners and their names: threads, threads:N, dask, dask://HOST:PORT."""

import re
from typing import Any

from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.deployment.parameters import RUNNERS, THREADS
from kgcore.errors import InputError
from tasks.workspace.resources import cores


def worker_count(text: str) -> int | None:
    """Return how many tasks a runner runs in parallel on this machine; None for a remote Dask cluster.

    If the name has no N, the number is half the number of cores, at least 1. Raises InputError if `text` does not name
    a runner.
    """
    found = re.fullmatch(RUNNERS, text)
    if found is None:
        raise InputError(f"--runner is {text!r}: it must be threads, threads:N, dask or dask://HOST:PORT")
    if text.startswith("dask:"):
        return None
    return int(found[1]) if found[1] else max(1, cores() // 2)


def task_runner(text: str) -> "TaskRunner[Any]":
    """Return the Prefect task runner with the name `text`.

    Raises InputError if `text` does not name a runner, or if it names Dask and the extra `dask` is not installed.
    """
    workers = worker_count(text)
    if text.startswith(THREADS):
        return ThreadPoolTaskRunner(max_workers=workers or 1)
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise InputError("--runner dask needs the extra: pip install 'kgcal[dask]'") from None
    local = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    options = {"cluster_kwargs": local} if workers else {"address": f"tcp:{text.removeprefix('dask:')}"}
    made: TaskRunner[Any] = DaskTaskRunner(**options)
    return made
