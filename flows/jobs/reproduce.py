"""The Prefect flow that reproduces the paper: it runs many pipelines and writes a page with their results.

A cell is one combination of settings in the paper's tables. One pipeline computes it.
"""

import logging
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner
from pydantic import NonNegativeInt

from flows.flow import flow
from flows.job import Argument, Option, job, publish
from flows.parameters import RUNNERS, THREADS, Device, PaperDataset, Preset, Runner, Table
from flows.pipeline import run_pipeline
from kgcore.errors import InputError, KgcalError, first_line
from kgcore.measure.report.result import Result
from kgcore.measure.report.summary import PipelineSummary
from kgcore.wings.reproduction.compare import recorded as recorded_results
from kgcore.wings.reproduction.grid import Cell, grid
from tasks.jobs.pipeline import finished_pipeline
from tasks.jobs.reproduce import (
    check_cells,
    finish_reproduction,
    publish_comparison,
    reproduction_run,
    share_cores,
)
from tasks.stages.running import Context
from tasks.workspace.flow_run import current_flow_run
from tasks.workspace.resources import cores

log = logging.getLogger("kgcal")


@job(
    shown={
        "tables": Argument("TABLES", required=True),
        "datasets": Option(name="--dataset"),
        "presets": Option(name="--preset"),
        "seeds": Option(name="--seed"),
    }
)
@flow(name="reproduce")
def reproduce(
    tables: list[Table] = ["all"],  # noqa: B006 (Prefect copies parameters)
    datasets: list[PaperDataset] = [],  # noqa: B006
    presets: list[Preset] = ["default"],  # noqa: B006
    seeds: list[NonNegativeInt] = [0],  # noqa: B006
    recorded: bool = False,
    runner: Runner = THREADS,
    force: bool = False,
    device: Device = "auto",
    csv: str | None = None,
) -> Result:
    """Compare our results with the paper's tables; run the pipelines that are missing.

    Args:
        tables: all, or some of results, losses, classification, base-rate, sensitivity, ranks, thresholds, reliability
        datasets: data set of the paper, repeated for several; if empty, every data set of the chosen tables
        presets: preset for training, repeated for several: default, best, or paper (the paper's protocol)
        seeds: seed of training and of corruptions, repeated for several: the page has their mean and standard error
        recorded: show the results that kgcal comes with instead of running pipelines, whatever their seeds
        runner: Prefect task runner for the pipelines: threads, threads:N, dask or dask://HOST:PORT
        force: run every pipeline even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
        csv: also write all compared values to this file, as one table
    """
    if csv and not Path(csv).absolute().parent.is_dir():
        raise InputError(f"csv {csv}: there is no folder {Path(csv).absolute().parent}")
    task_runner(runner)  # checks the name
    cells = grid(tuple(tables), tuple(datasets), tuple(presets), tuple(seeds))
    distinct = list(dict.fromkeys(cell for group in cells.values() for cell in group))
    second = Path(csv) if csv else None
    if recorded:
        frame = recorded_results(tables, datasets, presets)
        with reproduction_run(tables, datasets, presets, frame["seed"].unique().tolist()) as run_id:
            return publish(publish_comparison(run_id, frame, second))
    check_cells(distinct, device)
    with reproduction_run(tables, datasets, presets, seeds) as run_id:
        context = Context(parent=run_id, force=force, device=device, since=time.time())
        results, failures = run_cells(distinct, runner, context)
        made = finish_reproduction(run_id, cells, results, failures, second)
        if not results:
            raise InputError(f"every run failed: {'; '.join(dict.fromkeys(failures.values()))}")
        return publish(made)


def run_cells(cells: list[Cell], runner: str, context: Context) -> tuple[dict[Cell, PipelineSummary], dict[Cell, str]]:
    """Run the cells. Return the summary of each cell that succeeded, and in one line why each other cell failed.

    A failed cell does not stop the other cells. In a flow run, the cells are tasks of the runner. Without Prefect,
    they run one after the other.
    """
    results, failures, in_turn = dict[Cell, PipelineSummary](), dict[Cell, str](), current_flow_run() is None
    with nullcontext() if in_turn else task_runner(runner) as tasks:
        work = {
            cell: partial(run_cell.fn, cell, context) if tasks is None else _submitted(tasks, runner, cell, context)
            for cell in cells
        }
        for number, (cell, result) in enumerate(work.items(), start=1):
            if in_turn:
                log.info("cell %d of %d: %s", number, len(cells), cell)
            try:
                results[cell] = result()
            except Exception as error:  # any error, also a lost Dask worker: the other cells must still run
                known = isinstance(error, KgcalError)
                failures[cell] = first_line(error) if known else f"{type(error).__name__}: {first_line(error)}"
                if in_turn:
                    log.error("%s failed: %s", cell, failures[cell], exc_info=not known)
    return results, failures


def _submitted(tasks: "TaskRunner[Any]", runner: str, cell: Cell, context: Context) -> Callable[[], PipelineSummary]:
    """Submit a cell as a task to a runner. Return the function that waits for its summary or raises its error."""
    task_of_cell = run_cell.with_options(task_run_name=str(cell))
    given = {"cell": cell, "context": context, "workers": worker_count(runner)}
    wait: Callable[[], PipelineSummary] = tasks.submit(task_of_cell, parameters=given).result
    return wait


@task(name="cell", cache_policy=NO_CACHE)
def run_cell(cell: Cell, context: Context, workers: int | None = None) -> PipelineSummary:
    """Run the pipeline of a cell, or re-use a finished pipeline, and return its summary.

    workers  number of cells that share the cores of this machine; None = this cell uses all cores
    """
    if workers is not None:
        share_cores(workers)
    return finished_pipeline(cell.configs, context) or run_pipeline(cell.configs, context)


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
