"""The paper's values and our values in one tidy table. Every table, plot and finding uses some of its rows."""

from collections.abc import Iterator, Mapping

import pandas as pd

from kgcore.evaluation.predictions import UNCALIBRATED_RAW
from kgcore.report.summary import PipelineSummary
from kgcore.reproduction.grid import UNLABELLED, Cell
from kgcore.reproduction.paper import read_paper

BASELINE = "none"  # the value of `negatives` for a baseline, because a baseline is not fitted
COLUMNS = [
    *("table", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate", "paper", "ours", "run_id"),
    *("varied", "eta", "k", "preset", "relation", "note"),
]
METRICS_OF_TABLE = {
    "results": ("brier", "log_loss"),
    "losses": ("brier", "log_loss", "mrr"),
    "classification": ("accuracy",),
    "base-rate": ("brier", "log_loss"),
    "sensitivity": ("brier", "log_loss"),
    "ranks": ("mr", "mrr", "hits_at_10"),
    "reliability": ("ece",),
}
_PUBLISHED = ["published_eta", "published_k"]  # eta and k of the published value; eta and k are those of our run
_KEY = ["study", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate", *_PUBLISHED]
_OURS = [*(name for name in COLUMNS if name not in ("paper", "note")), "study", *_PUBLISHED]
_RULES = {"per_relation_learned": "learned", "per_relation": "median"}  # the paper has only the median rule


def side_by_side(grid: Mapping[str, list[Cell]], results: Mapping[Cell, PipelineSummary]) -> pd.DataFrame:
    """Return a table with a row for each of our values, and with the columns COLUMNS.

    `ours` is our value, NaN if the run has failed. `paper` is the paper's value, NaN if the paper publishes none.

    grid     table -> its cells
    results  cell -> summary of its pipeline. A cell whose run has failed is missing
    """
    rows = [row for table, cells in grid.items() for cell in cells for row in _figures(table, cell, results.get(cell))]
    ours = pd.DataFrame(rows, columns=_OURS)  # the columns exist even if every run has failed
    ours = ours.astype({"base_rate": float, "published_eta": int, "published_k": int, "ours": float})
    paper = read_paper().rename(columns={"value": "paper", "eta": "published_eta", "k": "published_k"})
    # The base-rate files do not name their loss. According to the published settings, it is the multiclass NLL.
    paper.loc[paper["study"] == "base_rate", "loss"] = "multiclass_nll"
    frame = ours.merge(paper, on=_KEY, how="left", validate="many_to_one")
    frame["note"] = frame["note"].fillna("")
    frame.loc[frame["relation"] != "", "paper"] = float("nan")  # the paper has no value for a single relation
    return frame[COLUMNS]


def _figures(table: str, cell: Cell, result: PipelineSummary | None) -> Iterator[dict[str, object]]:
    """Yield the values of a cell as rows of a table, with the columns _OURS. `result` is None if the run has failed."""
    study = {"base-rate": "base_rate", "sensitivity": cell.varied}.get(table, "main")
    if cell.dataset in UNLABELLED:  # the paper has them only in this study; ranks do not depend on the base rate
        study = "base_rate"
    row: dict[str, object] = {
        "table": table,
        "study": study,
        "run_id": result.pipeline if result else "",
        "relation": "",
    }
    row |= {name: getattr(cell, name) for name in ("dataset", "model", "loss", "base_rate", "varied", "preset")}
    row |= {"published_eta": cell.eta, "published_k": cell.k}
    row |= {"eta": cell.configs.train.training_eta, "k": cell.configs.train.k}
    if table == "thresholds":  # the paper has no numbers for single relations
        for relation in result.relations if result else ():
            for calibrator, rule in _RULES.items():
                key = {"relation": relation.name, "negatives": BASELINE, "calibrator": calibrator}
                for metric in ("threshold", "accuracy"):
                    ours = float(getattr(getattr(relation.decisions, rule), metric))
                    yield row | key | {"metric": metric, "ours": ours}
        return
    for metric in METRICS_OF_TABLE[table]:
        for negatives, calibrator in _calibrators(table, metric, cell):
            value = _value(result, negatives, calibrator, metric) if result else float("nan")
            yield row | {"negatives": negatives, "calibrator": calibrator, "metric": metric, "ours": value}


def _calibrators(table: str, metric: str, cell: Cell) -> list[tuple[str, str]]:
    """Return the pairs (negatives, calibrator) for which a table shows a metric."""
    if metric in ("mr", "mrr", "hits_at_10"):
        return [(BASELINE, "")]
    kinds = ("synthetic",) if cell.dataset in UNLABELLED else ("ground_truth", "synthetic")
    fitted = [(negatives, calibrator) for negatives in kinds for calibrator in ("platt", "isotonic")]
    more = {"classification": ["per_relation", "per_relation_learned"], "base-rate": ["base_rate"]}.get(table, [])
    return [(BASELINE, "uncalibrated"), *fitted, *((BASELINE, name) for name in more)]


def _value(result: PipelineSummary, negatives: str, calibrator: str, metric: str) -> float:
    if not calibrator:
        return float(result.ranks[metric])
    if calibrator in _RULES:
        return float(result.accuracy_per_relation[_RULES[calibrator]])
    metrics = {(row.negatives or BASELINE, row.calibrator): row.metrics for row in result.results.rows}
    if calibrator == "uncalibrated":  # the paper's is of the raw score
        calibrator = UNCALIBRATED_RAW if (negatives, UNCALIBRATED_RAW) in metrics else calibrator
    return float(metrics[negatives, calibrator][metric])
