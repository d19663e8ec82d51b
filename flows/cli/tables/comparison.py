"""The comparison as a person sees it: a table for each test sample, as wide as the terminal lets it be."""

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from kgcore.report.columns import title
from tasks.jobs.compare import FURTHER, HIGHEST_FIRST, LABELLED, METRICS, TEST_SAMPLE, setting_columns
from tasks.tracking.views import best_runs_page

HEADERS = {  # in the order of the table
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
    **{name: title(name).replace(" (", "\n(").replace(", ", "\n") for name in FURTHER},  # the one compared by
    "mrr": "MRR",
    "differs": "differs in",
    "when": "when",
    "run": "run",
}
# a terminal that is too narrow goes without these, the first ones first
SAME = (
    "training_strategy",
    "calibration_strategy",
    "base_rate",
    "k",
    "negatives",
)  # where all rows agree, and a line says so
DISPENSABLE = ("when", "run", "mrr", "short run", "accuracy", "log_loss", "ece", "brier")  # not the metric compared by
LABELS = ["model", "loss", "k", "training_strategy", "calibration_strategy", "negatives", "calibrator", "base_rate"]


def show_comparison(console: Console, frame: pd.DataFrame, metric: str, top: int) -> None:
    """Print a table for each test sample of `tasks.jobs.compare.comparison`: its `top` best rows (0 = all)."""
    for _, sample in frame.groupby(TEST_SAMPLE, sort=False):
        fitted = sample[sample["negatives"] != "none"]
        console.print(
            f"[bold]{escape(_title(frame, sample))}[/]: {len(fitted)} calibrators, best {_word(metric)} first"
        )
        _show_sample(console, fitted.head(top) if top else fitted, fitted, metric)
        raw = sample[sample["calibrator"] == "uncalibrated"][metric].dropna()
        if len(raw) and metric != "mrr":
            console.print(f"best {_word(metric)} without calibration: {_best(raw, metric):.4f}")
        if fitted[metric].notna().any():
            console.print(f"the first row's run: {fitted['run'].iloc[0]}", soft_wrap=True)
        if 0 < top < len(fitted):
            console.print(f"{top} of {len(fitted)} rows: --top 0 shows all, --csv writes them to a file")
        console.print()
    pages = {dataset: best_runs_page(dataset) for dataset in dict.fromkeys(frame["dataset"])}
    for dataset, page in pages.items():
        if page:
            console.print(f"{escape(dataset)} in MLflow: {page}", soft_wrap=True)
    if not any(pages.values()):
        console.print("with a server, `kgcal up`, this command prints a link to the same table", soft_wrap=True)


def _show_sample(console: Console, shown: pd.DataFrame, fitted: pd.DataFrame, metric: str) -> None:
    """The table, in what columns there is room for, and a line about those there is none for."""
    cells = _cells(shown, fitted)
    names = [name for name in HEADERS if any(cells[name]) and (name == metric or name not in FURTHER)]
    constant = [name for name in SAME if name in names and len(set(cells[name]) - {""}) == 1 and len(shown) > 1]
    gone: list[str] = []
    for name in ["when", *constant, *DISPENSABLE[1:]]:
        if _width(console, _table(names, cells)) <= console.width:
            break
        if name == "run":
            cells["run"] = [text[:8] for text in cells["run"]]
        elif (column := name.removeprefix("short ")) != metric and column in names:
            names.remove(column)
            gone.append(column)
    console.print(_table(names, cells))
    same = [f"{_header(name)} {max(cells[name])}" for name in gone if name in constant]
    left = [_header(name) for name in gone if name not in constant]
    left += ["the rest of the run ids"] if "run" in names and len(cells["run"][0]) == 8 else []
    if same:
        console.print(f"in every row: {escape(', '.join(same))}")
    if left:
        console.print(f"no room for: {', '.join(left)} (a wider terminal, or --csv)")


def _table(names: list[str], cells: dict[str, list[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        numbers = name in METRICS or name in ("k", "base_rate")
        table.add_column(HEADERS[name], justify="right" if numbers else "left", overflow="fold", no_wrap=numbers)
    for row in zip(*(cells[name] for name in names), strict=True):
        table.add_row(*(f"[bold green]{text}[/]" if text.endswith("*") else escape(text) for text in row))
    return table


def _cells(shown: pd.DataFrame, fitted: pd.DataFrame) -> dict[str, list[str]]:
    """The rows' texts by column; a star marks the best of all fitted rows."""
    cells = {name: shown[name].astype(object).fillna("").astype(str).tolist() for name in (*LABELS, "run")}
    for name in ("negatives", "calibrator"):
        cells[name] = [text.replace("_", " ") for text in cells[name]]
    cells["base_rate"] = [f"{rate:.3g}" for rate in shown["base_rate"]]
    for name in METRICS:
        top = _best(fitted[name], name)
        cells[name] = ["-" if pd.isna(v) else f"{v:.4f}{'*' if v == top else ' '}" for v in shown[name]]
    cells["when"] = [when.to_pydatetime().astimezone().strftime("%Y-%m-%d %H:%M") for when in shown["when"]]
    cells["differs"] = _differences(fitted).loc[shown.index].tolist()
    return cells


def _differences(fitted: pd.DataFrame) -> "pd.Series[str]":
    """Of rows that the other columns cannot tell apart, the settings that do."""
    settings = [name for name in setting_columns(fitted) if not name.startswith("prepare.")]
    told = pd.Series("", index=fitted.index)
    for _, alike in fitted.groupby(LABELS, dropna=False):
        varied = [name for name in settings if alike[name].nunique() > 1] if len(alike) > 1 else []
        if varied:
            told[alike.index] = alike[varied].apply(_settings, axis=1)
    return told


def _settings(row: "pd.Series[str]") -> str:
    return " ".join(f"{str(name).partition('.')[2]}={value}" for name, value in row.astype(object).dropna().items())


def _title(frame: pd.DataFrame, sample: pd.DataFrame) -> str:
    """The data set, which of its graphs where there are several, and the test negatives where none are labelled."""
    first = sample.iloc[0]
    graphs = frame[frame["dataset"] == first["dataset"]]
    title = [first["dataset"]]
    if graphs["digest"].nunique() > 1:
        varied = [
            name for name in ("prepare.size", "prepare.graph_seed") if name in frame and graphs[name].nunique() > 1
        ]
        title += [f"{_header(name.partition('.')[2])} {first[name]}" for name in varied]
        title += [f"digest {first['digest']}"]
    return ", ".join(title + ([] if first["test"] == LABELLED else [f"tested on {first['test']}"]))


def _best(values: "pd.Series[float]", metric: str) -> float:
    return float(values.max() if metric in HIGHEST_FIRST else values.min())


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def _header(name: str) -> str:
    return HEADERS.get(name, name.replace("_", " ")).replace("\n", " ")


def _word(metric: str) -> str:
    return "MRR" if metric == "mrr" else title(metric)
