"""The paper's values and our values in one tidy table. Every table, plot and finding uses some of its rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pandas as pd

from kgcore.evaluation.predictions import UNCALIBRATED_RAW
from kgcore.reproduction.grid import UNLABELLED, Cell
from kgcore.reproduction.paper import read_paper
from kgcore.reproduction.result import BASELINE, CellResult

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
_KEY = ["study", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate"]
_KEY += ["published_eta", "published_k"]
_OURS = [*(name for name in COLUMNS if name not in ("paper", "note")), "study", "published_eta", "published_k"]
_RULES = {"per_relation_learned": "learned", "per_relation": "median"}  # the paper has only the median rule


@dataclass(frozen=True)
class Figure:
    """One of our values, with the key of the published value that it is compared with.

    study                       name of the study in the paper
    varied                      eta or k in the sensitivity study; else ''
    eta, k                      eta and k of our run
    published_eta, published_k  eta and k of the published value
    ours                        our value; NaN if the run has failed
    relation                    name of the relation, for the threshold or accuracy of one relation; else ''
    """

    table: str
    study: str
    dataset: str
    model: str
    loss: str
    base_rate: float
    varied: str
    preset: str
    eta: int
    k: int
    published_eta: int
    published_k: int
    run_id: str
    negatives: str = BASELINE
    calibrator: str = ""
    metric: str = ""
    relation: str = ""
    ours: float = float("nan")


def side_by_side(grid: Mapping[str, list[Cell]], results: Mapping[Cell, CellResult]) -> pd.DataFrame:
    """Return a table with a row for each of our values, and with the columns COLUMNS.

    `ours` is our value, NaN if the run has failed. `paper` is the paper's value, NaN if the paper publishes none.

    grid     table -> its cells
    results  cell -> results of its run. A cell whose run has failed is missing
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


def _figures(table: str, cell: Cell, result: CellResult | None) -> Iterator[Figure]:
    """Yield the values of a cell in a table. `result` is None if the run has failed."""
    study = {"base-rate": "base_rate", "sensitivity": cell.varied}.get(table, "main")
    if cell.dataset in UNLABELLED:  # the paper has them only in this study; ranks do not depend on the base rate
        study = "base_rate"
    train = cell.configs.train
    figure = Figure(
        table=table,
        study=study,
        dataset=cell.dataset,
        model=cell.model,
        loss=cell.loss,
        base_rate=cell.base_rate,
        varied=cell.varied,
        preset=cell.preset,
        eta=train.training_eta,
        k=train.k,
        published_eta=cell.eta,
        published_k=cell.k,
        run_id=result.run_id if result else "",
    )
    if table == "thresholds":
        yield from _thresholds(figure, result)
        return
    for metric in METRICS_OF_TABLE[table]:
        for negatives, calibrator in _calibrators(table, metric, cell):
            value = _value(result, negatives, calibrator, metric) if result else float("nan")
            yield replace(figure, negatives=negatives, calibrator=calibrator, metric=metric, ours=value)


def _calibrators(table: str, metric: str, cell: Cell) -> list[tuple[str, str]]:
    """Return the pairs (negatives, calibrator) for which a table shows a metric."""
    if metric in ("mr", "mrr", "hits_at_10"):
        return [(BASELINE, "")]
    kinds = ("synthetic",) if cell.dataset in UNLABELLED else ("ground_truth", "synthetic")
    fitted = [(negatives, calibrator) for negatives in kinds for calibrator in ("platt", "isotonic")]
    more = {"classification": ["per_relation", "per_relation_learned"], "base-rate": ["base_rate"]}.get(table, [])
    return [(BASELINE, "uncalibrated"), *fitted, *((BASELINE, name) for name in more)]


def _value(result: CellResult, negatives: str, calibrator: str, metric: str) -> float:
    if not calibrator:
        return float(result.ranks[metric])
    if calibrator in _RULES:
        return float(result.accuracies[_RULES[calibrator]])
    if calibrator == "uncalibrated":  # the paper's is of the raw score
        calibrator = UNCALIBRATED_RAW if (negatives, UNCALIBRATED_RAW) in result.metrics else calibrator
    return float(result.metrics[negatives, calibrator][metric])


def _thresholds(figure: Figure, result: CellResult | None) -> Iterator[Figure]:
    """Yield the threshold and the accuracy of every relation for both rules. The paper has no numbers for them."""
    for relation in result.relations if result else ():
        for calibrator, rule in _RULES.items():
            for metric, values in (("threshold", relation.thresholds), ("accuracy", relation.accuracies)):
                yield replace(
                    figure, relation=relation.name, calibrator=calibrator, metric=metric, ours=float(values[rule])
                )
