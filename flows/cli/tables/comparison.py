"""The terminal tables of `kgcal compare`: one per test sample, with the columns that fit into the terminal's width."""

import pandas as pd
from rich.console import Console
from rich.markup import escape

from flows.cli.tables.comparison_cells import best_value, cells_of
from flows.cli.tables.layout import Column, fitted_table, full_width, least_width
from kgcore.report.columns import title
from tasks.jobs.compare import FURTHER_METRICS, LABELLED, SORTABLE_METRICS, TEST_SAMPLE
from tasks.tracking.views import best_runs_page

HEADERS = {  # in the order of the columns
    "model": "model",
    "loss": "loss",
    "k": "k",
    "training_strategy": "training\nstrategy",
    "calibration_strategy": "calibration\nstrategy",
    "negatives": "negatives",
    "calibrator": "calibrator",
    "base_rate": "base\nrate",
    "brier": "Brier",
    "log_loss": "log loss",
    "ece": "ECE",
    "accuracy": "accuracy",
    **{
        name: title(name).replace(" (", "\n(").replace(", ", "\n") for name in FURTHER_METRICS
    },  # a table shows one of these columns only if its rows are sorted by this metric
    "mrr": "MRR",
    "differs": "differs in",
    "when": "when",
    "run": "run",
}
# In a narrow terminal, the table drops `when` first. Then it drops each of these columns whose value is the same in all
# rows; a line below the table shows these values.
DROPPED_IF_CONSTANT = ("training_strategy", "calibration_strategy", "base_rate", "k", "loss", "negatives")
SHORTEN_RUNS = "shorten the run ids"
# Finally it drops these columns in this order, until the table fits with cells that wrap at spaces. It never drops the
# metric that the rows are sorted by.
DROPPED = (SHORTEN_RUNS, "mrr", "run", "accuracy", "log_loss", "ece", "brier", *DROPPED_IF_CONSTANT, "differs")
SHORT_RUN = 8  # characters of a shortened run id


def show_comparison(console: Console, frame: pd.DataFrame, metric: str, top: int) -> None:
    """Print one table for each set of test triples in the frame that `tasks.jobs.compare.comparison` returns.

    top  number of rows in each table, the best ones; 0 = all
    """
    for _, sample in frame.groupby(TEST_SAMPLE, sort=False):
        _show_sample(console, _sample_title(frame, sample), sample, metric, top)
    pages = {dataset: best_runs_page(dataset) for dataset in dict.fromkeys(frame["dataset"])}
    for dataset, page in pages.items():
        if page:
            console.print(f"{escape(dataset)} in MLflow: {page}", soft_wrap=True)
    if not any(pages.values()):
        console.print("for a link to this table in MLflow, start a server: `kgcal up`", soft_wrap=True)


def _show_sample(console: Console, heading: str, sample: pd.DataFrame, metric: str, top: int) -> None:
    """Print the table of a test sample, then the best value without calibration and the run of the first row."""
    fitted = sample[sample["negatives"] != "none"]
    count = f"{len(fitted)} calibrator{'' if len(fitted) == 1 else 's'}"
    console.print(f"[bold]{escape(heading)}[/]: {count}, best {_metric_title(metric)} first")
    _show_rows(console, fitted.head(top) if top else fitted, fitted, metric)
    uncalibrated = sample[sample["calibrator"] == "uncalibrated"][metric].dropna()
    if len(uncalibrated) and metric != "mrr":
        console.print(f"best {_metric_title(metric)} without calibration: {best_value(uncalibrated, metric):.4f}")
    if fitted[metric].notna().any():
        console.print(f"the first row's run: {fitted['run'].iloc[0]}", soft_wrap=True)
    if 0 < top < len(fitted):
        console.print(f"{top} of {len(fitted)} rows: --top 0 shows all, --csv writes them to a file")
    console.print()


def _show_rows(console: Console, shown: pd.DataFrame, fitted: pd.DataFrame, metric: str) -> None:
    """Print the rows with the columns that fit, and name the columns that do not."""
    cells = cells_of(shown, fitted)
    names = [name for name in HEADERS if any(cells[name]) and (name == metric or name not in FURTHER_METRICS)]
    constant = [name for name in DROPPED_IF_CONSTANT if name in names and _is_constant(cells[name])]
    dropped: list[str] = []
    shortened = False
    for step in ("when", *constant, *DROPPED):
        needed = full_width if step == "when" or step in constant else least_width
        if needed(_columns(names), cells) <= console.width:
            break
        if step == SHORTEN_RUNS:
            cells["run"] = [text[:SHORT_RUN] for text in cells["run"]]
            shortened = True
        elif step in names and step != metric:
            names.remove(step)
            dropped.append(step)
    console.print(fitted_table(_columns(names), cells, console.width, marked=SORTABLE_METRICS))
    same = [f"{_header(name)} {max(cells[name])}" for name in dropped if name in constant]
    missing = [_header(name) for name in dropped if name not in constant]
    missing += ["full run ids"] if shortened and "run" in names else []
    if same:
        console.print(f"in every row: {escape(', '.join(same))}")
    if missing:
        console.print(f"not shown: {', '.join(missing)} (use a wider terminal, or --csv)")


def _is_constant(texts: list[str]) -> bool:
    """Return whether all rows have the same text. Empty texts do not count."""
    return len(set(texts) - {""}) == 1


def _columns(names: list[str]) -> dict[str, Column]:
    return {name: Column(HEADERS[name], name in SORTABLE_METRICS or name in ("k", "base_rate")) for name in names}


def _sample_title(frame: pd.DataFrame, sample: pd.DataFrame) -> str:
    """Return the heading of a test sample.

    It names the data set. If the data set has several graphs, the size, the seed and the digest follow. If the test
    negatives are corruptions, their strategy follows.
    """
    first = sample.iloc[0]
    graphs = frame[frame["dataset"] == first["dataset"]]
    parts = [first["dataset"]]
    if graphs["digest"].nunique() > 1:
        settings = [name for name in ("prepare.size", "prepare.graph_seed") if name in frame]
        varied = [name for name in settings if graphs[name].nunique() > 1]
        parts += [f"{_header(name.partition('.')[2])} {first[name]}" for name in varied]
        parts += [f"digest {first['digest']}"]
    return ", ".join(parts + ([] if first["test"] == LABELLED else [f"tested on {first['test']}"]))


def _header(name: str) -> str:
    return HEADERS.get(name, name.replace("_", " ")).replace("\n", " ")


def _metric_title(metric: str) -> str:
    return "MRR" if metric == "mrr" else title(metric)
