"""The paper's values and our values in one tidy table. Every table, plot and finding uses some of its rows.

paper.csv  the authors' unrounded results, published with the paper's code: one value per row
recorded.csv  the results of kgcal beside them, as `kgcal reproduce --csv` writes them, without the runs' ids
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pandera.pandas as pa
from pandera.typing import DataFrame, Series

from kgcore.errors import InputError
from kgcore.measure.evaluation.predictions import UNCALIBRATED_RAW
from kgcore.measure.report.summary import PipelineSummary
from kgcore.wings.reproduction.grid import UNLABELLED, Cell

STUDIES = ("main", "base_rate", "eta", "k")
DATASETS = ("wn11", "fb13", "yago39k", "fb15k-237", "wn18rr")
MODELS = ("transe", "distmult", "complex", "hole", "convkb")
LOSSES = ("self_adversarial", "pairwise", "nll", "multiclass_nll")
NEGATIVES = ("ground_truth", "synthetic", "none")
CALIBRATORS = ("platt", "platt_exact", "isotonic", "uncalibrated", "base_rate", "per_relation")
PUBLISHED_METRICS = ("brier", "log_loss", "ece", "accuracy", "mr", "mrr", "hits_at_10")
NOT_HELD_OUT = "not held out"
BASELINE = "none"  # the value of `negatives` for a baseline, because a baseline is not fitted
COLUMNS = [
    *("table", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate", "paper", "ours", "run_id"),
    *("varied", "eta", "k", "preset", "seed", "relation", "note"),
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


class PaperSchema(pa.DataFrameModel):
    """A table with one published value per row. All columns except `value` and `note` together identify a row.

    study       main: the study of every model and loss; base_rate, eta, k: the study that varies this setting
    dataset     name in kgcore.data.datasets
    model       name in kgcore.embed.models; convkb only on WN11
    loss        name in kgcore.embed.losses; '' in the base-rate study, because its files do not name the loss
    negatives   negatives that the calibrator is fitted on; none for a baseline and for ranks
    calibrator  platt: the authors' mini-batch fit; platt_exact: their exact sigmoid fit; isotonic;
                uncalibrated: the sigmoid of the score; base_rate: the base rate as the probability of every triple;
                per_relation: a threshold per relation, the median of its validation scores; '' for ranks
    metric      brier, log_loss (nats, clipped at 1e-7), ece (10 bins of equal width), accuracy (with the decision
                threshold 0.5, or with one threshold per relation), and the metrics of the filtered ranks of the test
                positives: mr, mrr, hits_at_10
    base_rate   share of positives that the calibration assumes: 0.05 to 0.95 in the base-rate study, else 0.5
    eta, k      corruptions per positive in training, embedding size
    value       the unrounded value
    note        'not held out' if the published code fitted and measured the calibrator on the same triples, else ''
    """

    study: Series[str] = pa.Field(isin=STUDIES)
    dataset: Series[str] = pa.Field(isin=DATASETS)
    model: Series[str] = pa.Field(isin=MODELS)
    loss: Series[str] = pa.Field(isin=("", *LOSSES))
    negatives: Series[str] = pa.Field(isin=NEGATIVES)
    calibrator: Series[str] = pa.Field(isin=("", *CALIBRATORS))
    metric: Series[str] = pa.Field(isin=PUBLISHED_METRICS)
    base_rate: Series[float] = pa.Field(gt=0, lt=1)
    eta: Series[int] = pa.Field(ge=1)
    k: Series[int] = pa.Field(ge=1)
    value: Series[float] = pa.Field(ge=0)
    note: Series[str] = pa.Field(isin=("", NOT_HELD_OUT))

    class Config:
        strict = True
        ordered = True
        unique: ClassVar[list[str]] = [
            *("study", "dataset", "model", "loss", "negatives", "calibrator", "metric", "base_rate", "eta", "k")
        ]


def recorded(tables: Iterable[str], datasets: Collection[str], presets: Collection[str]) -> pd.DataFrame:
    """Return the rows of recorded.csv of these tables, data sets and presets, with the columns COLUMNS.

    tables, datasets  `all` among the tables, and no data set, mean every one

    Raises InputError if it has no such row.
    """
    with as_file(files("kgcore.wings.reproduction").joinpath("recorded.csv")) as path:
        frame = read_results(path)
    wanted = frame["preset"].isin(presets) & (frame["table"].isin([*tables]) | ("all" in tables))
    chosen = frame[wanted & (frame["dataset"].isin(datasets) | (len(datasets) == 0))]
    if chosen.empty:
        raise InputError(
            f"no result of {', '.join(tables)} with {', '.join(presets)} is recorded: compute it without --recorded"
        )
    return chosen.reset_index(drop=True)


def read_results(path: Path) -> pd.DataFrame:
    """Read a table that `kgcal reproduce --csv` wrote, or recorded.csv, with the columns COLUMNS."""
    words = ("dataset", "model", "loss", "negatives", "calibrator", "metric", "varied", "preset", "relation", "note")
    missing = {"ours": [""], "paper": [""]}
    frame = pd.read_csv(path, dtype=dict.fromkeys(words, "str"), keep_default_na=False, na_values=missing)
    return frame.assign(run_id="")[COLUMNS]


def read_paper() -> DataFrame[PaperSchema]:
    """Read paper.csv and validate it. The paper's tables and plots show some of its rows."""
    types = {name: "float64" if name in ("base_rate", "value") else "str" for name in PaperSchema.to_schema().columns}
    with files("kgcore.wings.reproduction").joinpath("paper.csv").open(encoding="utf-8") as file:
        frame = pd.read_csv(
            file, dtype=types | {"eta": "int64", "k": "int64"}, keep_default_na=False, float_precision="round_trip"
        )
    return PaperSchema.validate(frame)


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
    row |= {name: getattr(cell, name) for name in ("dataset", "model", "loss", "base_rate", "varied", "preset", "seed")}
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
