"""The reproduction of the paper: its MLflow run, with the cells' runs nested under it, and the page of results."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from kgcore.measure.evaluation.evaluate import Measured
from kgcore.measure.evaluation.predictions import UNCALIBRATED_RAW
from kgcore.measure.report.plots import reliability_figure
from kgcore.measure.report.result import Result
from kgcore.measure.report.results import Results
from kgcore.measure.report.summary import PipelineSummary
from kgcore.storage.folders import write_json
from kgcore.wings.reproduction.compare import side_by_side
from kgcore.wings.reproduction.grid import Cell
from kgcore.wings.reproduction.page import comparison_page, findings, sweep_figures
from tasks.jobs.compare import write_csv
from tasks.jobs.pipeline import open_work
from tasks.stages.train import check_training
from tasks.tracking.artifacts import MEASURED
from tasks.tracking.record import RunTags
from tasks.tracking.store import Store, open_store
from tasks.workspace.resources import cores
from tasks.workspace.settings import temporary_folder

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

NAMED_BY = ("preset", "seed", "dataset", "model", "loss", "negatives", "calibrator")  # what names a value of the paper
PAGE, TABLE = "reproduction.html", "reproduction.csv"


def check_cells(cells: Iterable[Cell], device: str) -> None:
    """Raise InputError if a cell's model cannot be trained with its settings, or if the device does not exist."""
    for cell in cells:
        check_training(cell.configs.train, device)


def share_cores(workers: int) -> None:
    """Limit torch in this process to an equal share of the cores, and to at least one core.

    workers  number of trainings that run in parallel, at least 1
    """
    import torch

    torch.set_num_threads(max(1, cores() // workers))


def reproduction_run(
    tables: list[str], datasets: list[str], presets: list[str], seeds: list[int]
) -> AbstractContextManager[str]:
    """Open the MLflow run of a reproduction; `with` gives its id."""
    params = {
        "tables": tuple(tables),
        "datasets": tuple(datasets) or ("all",),
        "presets": tuple(presets),
        "seeds": tuple(str(seed) for seed in seeds),
    }
    return open_work(f"reproduce {' '.join(tables)}", RunTags(stage="reproduction"), params)


def finish_reproduction(
    run_id: str,
    grid: Mapping[str, list[Cell]],
    results: Mapping[Cell, PipelineSummary],
    failures: Mapping[Cell, str],
    csv: Path | None,
) -> Result:
    """Log tables, figures and findings as artifacts of the run, and copy them to reports/RUN_ID in the home.

    grid      table or figure of the paper -> its cells
    results   cell -> summary of its pipeline
    failures  cell -> reason why it failed
    csv       path for a second copy of the table of all metrics; None: no second copy
    """
    store, frame = open_store(), side_by_side(grid, results)
    figures = {}
    if "reliability" in grid:
        figures = _reliability_figures(store, {cell: results[cell] for cell in grid["reliability"] if cell in results})
    pipelines = {str(cell): summary.pipeline for cell, summary in results.items()}
    store.log_metrics(run_id, {"succeeded": len(results), "failed": len(failures)})
    made = publish_comparison(run_id, frame, csv, figures, _by_reason(failures), pipelines)
    failed = f"{len(failures)} of {len(results) + len(failures)} runs failed" if failures else ""
    return replace(made, failure=failed)


def publish_comparison(
    run_id: str,
    frame: "pd.DataFrame",
    csv: Path | None,
    figures: "Mapping[str, Figure]" = MappingProxyType({}),
    failures: Mapping[str, str] = MappingProxyType({}),
    pipelines: Mapping[str, str] = MappingProxyType({}),
) -> Result:
    """Log the page, the table and the figures of a comparison as artifacts of a run.

    frame      the output of `side_by_side` or `recorded`
    csv        path for a second copy of the table; None: no second copy
    figures    title -> plot, in addition to those over the base rate, eta and k
    failures   runs -> reason why they failed
    pipelines  run -> id of its pipeline in MLflow
    """
    store, found, figures = open_store(), findings(frame), sweep_figures(frame) | dict(figures)
    presets = frame["preset"].unique().tolist()
    notes = [
        "Tabacof & Costabello, Probability Calibration for Knowledge Graph Embedding Models, ICLR 2020, reproduced "
        f"with the preset{'s' * (len(presets) > 1)} {' and '.join(presets)}. In every cell: ours (the mean over seeds "
        "± its standard error, if there are several), the difference, and the paper's unrounded value; green is better "
        "than the paper, red is worse by more than 0.01.",
        "Values that are not held out come from a published program that measured on the validation files. The "
        "findings do not use them.",
    ]
    page = comparison_page("The paper and kgcal, side by side", frame, figures, failures, notes, found)
    with temporary_folder() as folder:
        (folder / PAGE).write_text(page, encoding="utf-8")
        frame.to_csv(folder / TABLE, index=False)
        write_json(folder / "failures.json", dict(failures))
        write_json(folder / "pipelines.json", dict(pipelines))
        (folder / "figures").mkdir()
        for title, figure in figures.items():
            figure.savefig(folder / "figures" / f"{re.sub(r'[^a-zA-Z0-9]', '_', title)}.png", dpi=120)
        place = store.log_report(run_id, folder)
        if csv is not None:
            write_csv(frame, csv)
    store.log_tags(run_id, RunTags(note="\n".join(f"* {line}" for line in found)))
    both = frame.dropna(subset=["paper", "ours"]).assign(difference=lambda f: f["ours"] - f["paper"])
    shown = both[["table", *NAMED_BY, "metric", "ours", "paper", "difference"]].round(4)
    return Result(
        title="The paper and kgcal, side by side",
        sentences=[
            *(f"* {finding}" for finding in found),
            *(f"* {runs} failed: {reason}" for runs, reason in failures.items()),
            f"{len(both)} values are compared with the paper's.",
        ],
        files={"page": str(place / PAGE), "table": str(csv or place / TABLE)},
        run=run_id,
        rows=json.loads(shown.to_json(orient="records")),
    )


def _by_reason(failures: Mapping[Cell, str]) -> dict[str, str]:
    """Return runs -> reason. Runs of a data set that failed for the same reason stand together: "yago39k, 48 runs"."""
    groups = dict[tuple[str, str], list[Cell]]()
    for cell, reason in failures.items():
        groups.setdefault((cell.dataset, reason), []).append(cell)
    return {
        str(cells[0]) if len(cells) == 1 else f"{dataset}, {len(cells)} runs ({cells[0]}, ...)": reason
        for (dataset, reason), cells in groups.items()
    }


def _reliability_figures(store: Store, results: Mapping[Cell, PipelineSummary]) -> dict[str, "Figure"]:
    """Return title -> reliability diagram, two for each data set.

    One diagram shows the uncalibrated probabilities of every loss. The other shows every calibrator of one loss: the
    loss with the lowest Brier score of all calibrated results. Below each diagram is the share of triples per bin.
    """
    figures = {}
    for dataset in dict.fromkeys(cell.dataset for cell in results):
        measured: dict[Cell, dict[str, Measured]] = {
            cell: store.load(summary.runs["evaluate"], MEASURED)
            for cell, summary in results.items()
            if cell.dataset == dataset
        }
        raw = {
            cell.loss.replace("_", " "): shown.get(UNCALIBRATED_RAW, shown["uncalibrated"])
            for cell, shown in measured.items()
        }
        title = f"{dataset}: uncalibrated, by loss"
        figures[title] = reliability_figure(title, raw)
        best = min(measured, key=lambda cell: Results.of(measured[cell]).best()["brier"])
        fitted = {label.replace(".", " ").replace("_", " "): m for label, m in measured[best].items() if "." in label}
        title = f"{dataset}: best calibrated, {best.loss.replace('_', ' ')}"
        figures[title] = reliability_figure(title, fitted)
    return figures
