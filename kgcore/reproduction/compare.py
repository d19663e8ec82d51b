"""The paper's value and ours, side by side: one tidy frame that every table, figure and finding is a selection of."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from kgcore.report.summary import PipelineSummary
from kgcore.reproduction.grid import UNLABELLED, Cell
from kgcore.reproduction.paper import read_paper

COLUMNS = [
    *("table", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate", "paper", "ours", "run_id"),
    *("varied", "eta", "k", "preset", "relation", "note"),
]
METRICS = {
    "results": ("brier", "log_loss"),
    "losses": ("brier", "log_loss", "mrr"),
    "classification": ("accuracy",),
    "base-rate": ("brier", "log_loss"),
    "sensitivity": ("brier", "log_loss"),
    "ranks": ("mr", "mrr", "hits_at_10"),
    "thresholds": ("threshold", "accuracy"),
    "reliability": ("ece",),
}
_OURS = [*(name for name in COLUMNS if name not in ("paper", "note")), "study", "published_eta", "published_k"]
_KEY = ["study", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate"]
_KEY += ["published_eta", "published_k"]


def side_by_side(grid: Mapping[str, list[Cell]], results: Mapping[Cell, PipelineSummary]) -> pd.DataFrame:
    """One row a figure, with COLUMNS: those of the paper in `paper`, NaN where it has none, ours in `ours`, NaN where
    the run failed.

    results  cell -> the summary of its pipeline; a cell that is missing has failed
    """
    rows = [
        {"table": table, "run_id": results[cell].pipeline if cell in results else "", **row}
        for table, cells in grid.items()
        for cell in cells
        for row in _rows(table, cell, results.get(cell))
    ]
    ours = pd.DataFrame(rows, columns=_OURS)  # which there are even where every run has failed
    ours = ours.astype({"base_rate": float, "published_eta": int, "published_k": int, "ours": float})
    paper = read_paper().rename(columns={"value": "paper", "eta": "published_eta", "k": "published_k"})
    # the base-rate files do not name their loss: it is the multiclass NLL of the settings published for it
    paper.loc[paper["study"] == "base_rate", "loss"] = "multiclass_nll"
    frame = ours.merge(paper, on=_KEY, how="left", validate="many_to_one")
    frame["note"] = frame["note"].fillna("")
    return frame[COLUMNS]


def _rows(table: str, cell: Cell, summary: PipelineSummary | None) -> Iterator[dict[str, Any]]:
    """A cell's figures in a table, as columns; without a summary `ours` is NaN."""
    study = {"base-rate": "base_rate", "sensitivity": cell.varied}.get(table, "main")
    if cell.dataset in UNLABELLED:  # published with the study of base rates alone, ranks the same for every rate
        study = "base_rate"
    labels: dict[str, Any] = {"study": study, "dataset": cell.dataset, "model": cell.model, "loss": cell.loss}
    labels |= {"base_rate": cell.base_rate, "varied": cell.varied, "preset": cell.preset, "relation": ""}
    train = cell.configs.train  # the published sizes find the published value; the run's own are shown
    labels |= {"eta": train.training_eta, "k": train.k, "published_eta": cell.eta, "published_k": cell.k}
    for metric in METRICS[table]:
        for negatives, calibrator in _calibrators(table, metric, cell):
            value = _value(summary, negatives, calibrator, metric)
            yield labels | {"negatives": negatives, "calibrator": calibrator, "metric": metric, "ours": value}
    if table == "thresholds":
        yield from _thresholds(labels | {"negatives": "none"}, summary)


def _calibrators(table: str, metric: str, cell: Cell) -> list[tuple[str, str]]:
    """(negatives, calibrator) of the figures that a table has of a metric."""
    if table == "thresholds":
        return []
    if metric in ("mr", "mrr", "hits_at_10"):
        return [("none", "")]
    uncalibrated, labelled = ("none", "uncalibrated"), cell.dataset not in UNLABELLED
    kinds = ("ground_truth", "synthetic") if labelled else ("synthetic",)
    fitted = [(negatives, calibrator) for negatives in kinds for calibrator in ("platt", "isotonic")]
    extra = {"classification": [("none", "per_relation"), ("none", "per_relation_learned")]}.get(table, [])
    extra += [("none", "base_rate")] if table == "base-rate" else []
    return [uncalibrated, *fitted, *extra]


def _value(summary: PipelineSummary | None, negatives: str, calibrator: str, metric: str) -> float:
    if summary is None:
        return float("nan")
    if not calibrator:
        return summary.ranks[metric]
    if calibrator.startswith("per_relation"):  # the published figure is that of the median rule
        return summary.accuracy_per_relation["learned" if calibrator.endswith("learned") else "median"]
    return summary.results.row("" if negatives == "none" else negatives, calibrator).metrics[metric]


def _thresholds(labels: dict[str, Any], summary: PipelineSummary | None) -> Iterator[dict[str, Any]]:
    for relation in summary.relations if summary else ():
        rules = {"per_relation_learned": relation.decisions.learned, "per_relation": relation.decisions.median}
        for calibrator, result in rules.items():
            for metric, value in vars(result).items():
                yield labels | {"relation": relation.name, "calibrator": calibrator, "metric": metric, "ours": value}
