"""The paper's tables and figures: a grid of pipelines as a Prefect flow, and the page made of their results."""

import logging
import re
import time
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.deployment.flow import flow
from flows.deployment.parameters import RUNNERS, THREADS, Device, PaperDataset, Preset, Runner, Table
from flows.deployment.publish import publish_reproduction
from flows.pipeline import run_pipeline
from kgcore.errors import InputError, KgcalError, first_line
from kgcore.report.summary import PipelineSummary
from kgcore.reproduction.grid import Cell, grid
from tasks.jobs.pipeline import finished_pipeline
from tasks.jobs.reproduce import Reproduction, check_cells, finish_reproduction, reproduction_run, share_cores
from tasks.stages.reference import Context
from tasks.workspace.flow_run import current_flow_run
from tasks.workspace.resources import cores

log = logging.getLogger("kgcal")


@flow(name="reproduce")
def reproduce(
    tables: list[Table] = ["all"],  # noqa: B006 (Prefect copies parameters)
    datasets: list[PaperDataset] = [],  # noqa: B006
    preset: Preset = "default",
    runner: Runner = THREADS,
    force: bool = False,
    device: Device = "auto",
    csv: str | None = None,
) -> Reproduction:
    """The paper's tables and figures with its values, ours and the differences; runs what is missing.

    Args:
        tables: tables and figures of the paper; all = every one
        datasets: data sets of the paper; none = all that a table has
        preset: how models are trained: default, or paper (its protocol)
        runner: what runs the cells: threads, threads:N, dask, or dask://HOST:PORT
        force: run every cell anew
        device: auto, cpu, cuda or cuda:N
        csv: write the figures to this file as one tidy table, too
    """
    if csv and not Path(csv).absolute().parent.is_dir():
        raise InputError(f"csv {csv}: there is no folder {Path(csv).absolute().parent}")
    cells = grid(tuple(tables), tuple(datasets), preset)
    distinct = list(dict.fromkeys(cell for group in cells.values() for cell in group))
    check_cells(distinct, device)
    with reproduction_run(tables, datasets, preset) as run_id:
        context = Context(parent=run_id, force=force, device=device, since=time.time())
        results, failures = run_cells(distinct, runner, context)
        made = finish_reproduction(run_id, cells, results, failures, preset, Path(csv) if csv else None)
        if not results:
            raise InputError(f"every run failed: {'; '.join(dict.fromkeys(made.failures.values()))}")
        publish_reproduction(made)
        return made


def run_cells(cells: list[Cell], runner: str, context: Context) -> tuple[dict[Cell, PipelineSummary], dict[Cell, str]]:
    """The summaries of the cells that succeeded, and the reasons of those that failed: none takes another with it.

    Inside a flow run the cells are tasks of the runner; outside, where no server is, they run one after the other.
    """
    outcomes: dict[Cell, Any] = {}
    workers = worker_count(runner)
    if current_flow_run():
        with task_runner(runner) as tasks:
            futures = {
                cell: tasks.submit(
                    run_cell.with_options(task_run_name=str(cell)),
                    parameters={"cell": cell, "context": context, "workers": workers},
                )
                for cell in cells
            }
            for cell, future in futures.items():
                try:
                    outcomes[cell] = future.result(raise_on_failure=False)
                except Exception as error:  # a Dask worker that was killed, a connection that was lost
                    outcomes[cell] = error
    else:
        for number, cell in enumerate(cells, start=1):
            log.info("cell %d of %d: %s", number, len(cells), cell)
            try:
                outcomes[cell] = run_cell.fn(cell, context)
            except Exception as error:  # whatever it is, the other cells go on
                log.error("%s failed: %s", cell, reason(error), exc_info=not isinstance(error, KgcalError))
                outcomes[cell] = error
    results = {cell: outcome for cell, outcome in outcomes.items() if isinstance(outcome, PipelineSummary)}
    failures = {cell: reason(outcome) for cell, outcome in outcomes.items() if cell not in results}
    return results, failures


def reason(error: Exception) -> str:
    """Why a cell failed, in a line."""
    return first_line(error) if isinstance(error, KgcalError) else f"{type(error).__name__}: {first_line(error)}"


@task(name="cell", cache_policy=NO_CACHE)
def run_cell(cell: Cell, context: Context, workers: int | None = None) -> PipelineSummary:
    """The summary of a cell's pipeline: of a finished one where there is one."""
    if workers is not None:
        share_cores(workers)
    return finished_pipeline(cell.configs, context) or run_pipeline(cell.configs, context)


def worker_count(text: str) -> int | None:
    """Cells at a time on this machine, of a runner that a user names: one for every two cores unless it is stated. None
    for a cluster. Raises InputError for what is no runner."""
    found = re.fullmatch(RUNNERS, text)
    if found is None:
        raise InputError(f"--runner is {text!r}: it must be threads, threads:N, dask or dask://HOST:PORT")
    if text.startswith("dask:"):
        return None
    return int(found[1]) if found[1] else max(1, cores() // 2)


def task_runner(text: str) -> "TaskRunner[Any]":
    """The Prefect task runner that a user names. Raises InputError for what is no runner, and where Dask is missing."""
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
