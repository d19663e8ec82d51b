"""The paper's tables and figures: a grid of pipelines as a Prefect flow, and the page made of their results."""

import logging
import os
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.pipeline import run_pipeline
from kgcore.errors import InputError, KgcalError
from kgcore.reproduction.grid import Cell, grid
from tasks.pipeline import finished_pipeline
from tasks.reproduce import finish_reproduction, reproduction_run

THREADS = "threads"
log = logging.getLogger("kgcal")


@flow(name="reproduce")
def reproduce(
    tables: list[str] = ["all"],  # noqa: B006 (Prefect copies parameters)
    datasets: list[str] = [],  # noqa: B006
    preset: str = "default",
    runner: str = THREADS,
    force: bool = False,
    device: str = "auto",
    csv: str | None = None,
) -> dict[str, Any]:
    """The paper's tables and figures with its values, ours and the differences; runs what is missing.

    Args:
        tables: all, or some of results, losses, classification, base-rate, sensitivity, ranks, thresholds, reliability
        datasets: data sets of the paper; none = all that a table has
        preset: how models are trained: default or paper
        runner: what runs the cells: threads, threads:N, dask, or dask://HOST:PORT
        force: run every cell anew
        device: auto, cpu, cuda or cuda:N
        csv: write the figures to this file as one tidy table, too
    """
    cells = grid(tuple(tables), tuple(datasets), preset)
    distinct = list(dict.fromkeys(cell for group in cells.values() for cell in group))
    with reproduction_run(tables, datasets, preset) as run_id:
        results, failures = run_cells(distinct, task_runner(runner), run_id, force, device)
        return finish_reproduction(run_id, cells, results, failures, preset, Path(csv) if csv else None)


def run_cells(
    cells: list[Cell], runner: "TaskRunner[Any]", parent: str, force: bool, device: str
) -> tuple[dict[Cell, dict[str, Any]], dict[Cell, str]]:
    """The summaries of the cells that succeeded, and the reasons of those that failed: none takes another with it.

    Inside a flow run the cells are tasks of the runner; outside, where no server is, they run one after the other.
    """
    outcomes: dict[Cell, Any] = {}
    if FlowRunContext.get():
        with runner:
            futures = {
                cell: runner.submit(
                    run_cell.with_options(task_run_name=str(cell)),
                    parameters={"cell": cell, "parent": parent, "force": force, "device": device},
                )
                for cell in cells
            }
            for cell, future in futures.items():
                outcomes[cell] = future.result(raise_on_failure=False)
    else:
        for number, cell in enumerate(cells, start=1):
            log.info("cell %d of %d: %s", number, len(cells), cell)
            try:
                outcomes[cell] = run_cell.fn(cell, parent, force, device)
            except Exception as error:  # whatever it is, the other cells go on
                log.error("%s failed: %s", cell, reason(error), exc_info=not isinstance(error, KgcalError))
                outcomes[cell] = error
    results = {cell: outcome for cell, outcome in outcomes.items() if isinstance(outcome, dict)}
    failures = {cell: reason(outcome) for cell, outcome in outcomes.items() if not isinstance(outcome, dict)}
    return results, failures


def reason(error: Exception) -> str:
    """Why a cell failed, in a line."""
    text = (str(error).strip().splitlines() or [""])[0]
    return text if isinstance(error, KgcalError) else f"{type(error).__name__}: {text}"


@task(name="cell", cache_policy=NO_CACHE)
def run_cell(cell: Cell, parent: str, force: bool, device: str) -> dict[str, Any]:
    """The summary of a cell's pipeline: of a finished one where there is one."""
    configs = cell.configs
    found = None if force else finished_pipeline(vars(configs))
    return found or run_pipeline(configs, force, device, parent=parent)


def task_runner(text: str) -> "TaskRunner[Any]":
    """The Prefect task runner that a user names: threads, threads:N, dask or dask://HOST:PORT.

    A training uses several cores, so `threads` is one cell at a time for every two of them. Raises InputError.
    """
    kind, _, rest = text.partition(":")
    if kind == THREADS:
        count = rest or str(default_workers())
        if not count.isdigit() or int(count) < 1:
            raise InputError(f"--runner {text}: threads:N needs a number of threads, at least 1")
        return ThreadPoolTaskRunner(max_workers=int(count))
    if kind != "dask" or (rest and not rest.startswith("//")):
        raise InputError(f"--runner is {text!r}: it must be threads, threads:N, dask or dask://HOST:PORT")
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise InputError("--runner dask needs the extra: pip install 'kgcal[dask]'") from None
    if rest:
        at_address: TaskRunner[Any] = DaskTaskRunner(address=f"tcp:{rest}")
        return at_address
    local = {"n_workers": default_workers(), "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    on_this_machine: TaskRunner[Any] = DaskTaskRunner(cluster_kwargs=local)
    return on_this_machine


def default_workers() -> int:
    """Cells at a time on this machine."""
    return max(1, (os.cpu_count() or 1) // 2)
