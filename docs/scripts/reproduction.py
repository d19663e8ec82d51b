"""Record results of `kgcal reproduce --csv`, and write the tables of docs/explanation/reproduction.md from them.

python docs/scripts/reproduction.py [RESULTS.csv ...]

The rows of each file replace those of the same cells in kgcore/wings/reproduction/recorded.csv. Without a file, only
the tables are written anew. Each stands between two comments of the page: `<!-- NAME -->` and `<!-- end -->`.
"""

import re
import sys
import textwrap
from importlib.resources import files
from pathlib import Path

import pandas as pd

from kgcore.config.presets import PRESETS
from kgcore.wings.reproduction.compare import COLUMNS, DATASETS, read_results, recorded
from kgcore.wings.reproduction.grid import TABLES
from kgcore.wings.reproduction.page import averaged, findings, name

PAGE = Path(__file__).parents[1] / "explanation" / "reproduction.md"
RECORDED = Path(str(files("kgcore.wings.reproduction"))) / "recorded.csv"
CELL = [column for column in COLUMNS if column not in ("paper", "ours", "run_id", "note")]
BLOCK = re.compile(r"<!-- ([^>]+) -->\n.*?<!-- end -->", re.DOTALL)
DIGITS = {"mr": 0, "accuracy": 3, "threshold": 2}
FITS = {
    (negatives, fit): f"{negatives.replace('_', ' ')}, {name(fit)}"
    for negatives in ("ground_truth", "synthetic")
    for fit in ("platt", "isotonic")
}
ACCURACIES = FITS | {("none", "per_relation_learned"): "learned thresholds", ("none", "per_relation"): "medians"}
RATES = {("synthetic", "platt"): "Platt", ("synthetic", "isotonic"): "isotonic", ("none", "base_rate"): "base rate"}
RANKS = {"mr": "MR", "mrr": "MRR", "hits_at_10": "Hits@10"}


def record(paths: list[Path]) -> None:
    """Replace the rows of recorded.csv by those of the files that have the same cell."""
    old = [read_results(RECORDED)] if RECORDED.exists() else []
    every = pd.concat([*old, *(read_results(path).dropna(subset="ours") for path in paths)], ignore_index=True)
    order = {name: place for place, name in enumerate((*PRESETS, *TABLES, *DATASETS))}
    kept = every.drop_duplicates(CELL, keep="last").sort_values(
        ["preset", "seed", "table", "dataset"], kind="stable", key=lambda column: column.replace(order)
    )
    kept.drop(columns="run_id").to_csv(RECORDED, index=False, float_format="%.6g")


def tables(frame: pd.DataFrame) -> dict[str, str]:
    """Return name -> table in Markdown, or the sentences of the findings. `frame` is the output of `recorded`."""
    means = averaged(frame)
    of = {str(table): rows for table, rows in means.groupby("table")}
    fits = means.assign(column=list(zip(means["negatives"], means["calibrator"], strict=True)))
    made = {}
    for metric in ("brier", "log_loss"):
        rows = fits[fits["metric"] == metric]
        made[f"results {metric}"] = _markdown(rows[rows["table"] == "results"], ["dataset", "model"], FITS)
        made[f"losses {metric}"] = _markdown(rows[rows["table"] == "losses"], ["dataset", "model", "loss"], FITS)
        sizes = rows[rows["table"] == "sensitivity"]
        for varied in ("eta", "k"):
            made[f"{varied} {metric}"] = _markdown(sizes[sizes["varied"] == varied], ["dataset", varied], FITS)
        rates = _of_all_presets(rows[rows["table"] == "base-rate"])
        of_rates = rates.groupby(["dataset", "rates", "preset", "column", "metric"], sort=False)
        mean = of_rates[["ours", "paper"]].mean().reset_index()
        made[f"base rates {metric}"] = _markdown(mean, ["dataset", "rates"], RATES)
    made["classification"] = _markdown(fits[fits["table"] == "classification"], ["dataset", "model"], ACCURACIES)
    ranks = of["ranks"].assign(column=of["ranks"]["metric"])
    made["ranks"] = _markdown(ranks, ["dataset", "model"], RANKS)
    rows = of["thresholds"]
    rows = rows.assign(column=list(zip(rows["calibrator"], rows["metric"], strict=True)))
    rules = {"per_relation": "median", "per_relation_learned": "learned"}
    made["thresholds"] = _markdown(
        rows,
        ["dataset", "relation"],
        {(rule, metric): f"{word}, {metric}" for rule, word in rules.items() for metric in ("threshold", "accuracy")},
    )
    errors = fits[(fits["table"] == "reliability") & (fits["metric"] == "ece")]
    made["reliability"] = _markdown(errors, ["dataset", "loss"], {("none", "uncalibrated"): "uncalibrated"} | FITS)
    made["findings"] = "\n".join(
        textwrap.fill(f"* {sentence}", 120, subsequent_indent="  ", break_on_hyphens=False)
        for sentence in findings(frame)
    )
    return made


def _of_all_presets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a base rate that each preset of their data set has; the column `rates` says how many."""
    presets = rows.groupby(["dataset", "base_rate"])["preset"].transform("nunique")
    kept = rows[presets == rows.groupby("dataset")["preset"].transform("nunique")]
    counts = kept.groupby("dataset")["base_rate"].transform("nunique").astype(str)
    return kept.assign(rates=counts + " base rates")


def _markdown(rows: pd.DataFrame, by: list[str], columns: dict[object, str]) -> str:
    """Return a table: a line for each value of `by`, a column for each value of the column `column`.

    A cell has our value with the preset `default`, with `paper`, and the authors' in brackets.
    """
    lines = [
        f"| {' | '.join(['', *[''] * (len(by) - 1), *columns.values()])} |",
        "|---" * (len(by) + len(columns)) + "|",
    ]
    for keys, part in rows.groupby(by, sort=False):
        cells = {key: _cell(values) for key, values in part.groupby("column", sort=False)}
        lines.append(f"| {' | '.join([*(name(key) for key in keys), *(cells.get(key, '') for key in columns)])} |")
    return "\n".join(lines)


def _cell(rows: pd.DataFrame) -> str:
    digits = DIGITS.get(rows["metric"].iloc[0], 4)

    def text(value: float) -> str:
        return re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")

    ours = rows.set_index("preset")["ours"]
    shown = " / ".join(text(ours[preset]) if preset in ours else "-" for preset in ("default", "paper"))
    paper = rows["paper"].dropna()
    return f"{shown} ({text(paper.iloc[0])})" if len(paper) else shown


def written(page: str, made: dict[str, str]) -> str:
    """Return the page with each table between its comments. Raises KeyError for a comment without a table."""
    return BLOCK.sub(lambda found: f"<!-- {found[1]} -->\n{made[found[1]]}\n<!-- end -->", page)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        record([Path(path) for path in sys.argv[1:]])
    results = recorded(["all"], [], PRESETS)
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables(results)), encoding="utf-8")
