"""The reproduction as one HTML page: the paper's value, ours and the difference in every cell."""

from collections.abc import Mapping
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import pandas as pd

from kgcore.report.page import svg
from kgcore.report.plots import COLOURS, new_figure
from kgcore.reproduction.findings import TOLERANCE, findings, worse_than_paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES = {
    "results": "Results: calibration with ground truth and synthetic negatives",
    "losses": "Losses",
    "classification": "Triple classification: accuracy at 0.5 and with a threshold per relation",
    "base-rate": "Positive base rates",
    "sensitivity": "Sensitivity to eta and k",
    "ranks": "Filtered ranks, both sides",
    "thresholds": "Thresholds per relation",
    "reliability": "Reliability: calibration error",
}
NAMES = {
    "transe": "TransE",
    "distmult": "DistMult",
    "complex": "ComplEx",
    "hole": "HolE",
    "nll": "NLL",
    "multiclass_nll": "multiclass NLL",
    "self_adversarial": "self-adversarial",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "mr": "MR",
    "mrr": "MRR",
    "hits_at_10": "Hits@10",
    "per_relation": "per relation, median",
    "per_relation_learned": "per relation, learned",
    "platt": "Platt",
}
HIGHER_IS_BETTER = ("accuracy", "mrr", "hits_at_10")
_ROWS = {"losses": ["model", "loss"], "base-rate": ["base_rate"], "thresholds": ["relation"], "reliability": ["loss"]}
_ROWS |= {"sensitivity": ["varied", "eta", "k"]}
_ALL_METRICS = ("ranks", "thresholds")  # tables whose columns are metrics


def comparison_page(
    title: str, frame: pd.DataFrame, figures: "dict[str, Figure]", failures: dict[str, str], notes: list[str]
) -> str:
    """The page as HTML.

    frame     what `side_by_side` made
    figures   title -> figure, shown at the end
    failures  run -> the sentence that says why it failed
    """
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    worse = worse_than_paper(frame)
    return environment.from_string(template).render(
        title=title,
        sections=[_section(str(table), part) for table, part in frame.groupby("table", sort=False)],
        findings=findings(frame),
        tolerance=TOLERANCE,
        worse=[_words(row) for row in worse.to_dict("records")],
        figures={name: svg(figure) for name, figure in figures.items()},
        failures=failures,
        notes=notes,
    )


def _section(table: str, frame: pd.DataFrame) -> dict[str, Any]:
    split = ["dataset"] if table in _ALL_METRICS else ["dataset", "metric"]
    grids = [
        {"title": ", ".join(name(key) for key in keys)} | _grid(table, part)
        for keys, part in frame.groupby(split, sort=False)
    ]
    return {"title": TITLES[table], "grids": grids}


def _grid(table: str, frame: pd.DataFrame) -> dict[str, Any]:
    """Heads of rows and columns, and the cells between them."""
    by = _ROWS.get(table, ["model"])
    if table == "sensitivity":
        frame = frame.assign(size=np.where(frame["varied"] == "eta", frame["eta"], frame["k"]))
        by = ["varied", "size"]
    across = ["metric"] if table == "ranks" else ["calibrator", "metric"] if table == "thresholds" else []
    across = across or ["negatives", "calibrator"]
    columns = list(dict.fromkeys(frame[across].itertuples(index=False, name=None)))
    body = []
    for keys, part in frame.groupby(by, sort=False):
        cells = {tuple(row[c] for c in across): row for row in part.to_dict("records")}
        heads = list(keys) if by == ["relation"] else [name(key) for key in keys]
        body.append((heads, [_cell(cells.get(column)) for column in columns]))
    return {
        "by": ["" if column == "varied" else name(column) for column in by],
        "columns": [" ".join(name(part) for part in column if part != "none") for column in columns],
        "body": body,
        "note": ", ".join(sorted(set(frame["note"]) - {""})),
    }


def _cell(row: Mapping[Any, Any] | None) -> dict[str, str]:
    """ours, paper, difference as text, and whether that is better or notably worse."""
    if row is None:
        return {"ours": "", "paper": "", "difference": "", "kind": ""}
    ours, paper = row["ours"], row["paper"]
    digits = 0 if row["metric"] == "mr" else 2 if row["metric"] == "threshold" else 4
    text = {"ours": "failed" if np.isnan(ours) else f"{ours:.{digits}f}", "paper": "", "difference": "", "kind": ""}
    if np.isnan(paper):
        return text
    text["paper"] = f"{paper:.{digits}f}"
    if not np.isnan(ours):
        difference = ours - paper
        text["difference"] = f"{difference:+.{digits}f}"
        gain = difference if row["metric"] in HIGHER_IS_BETTER else -difference
        comparable = row["negatives"] != "none" or not row["calibrator"]
        text["kind"] = "better" if gain > 0 else "worse" if gain < -TOLERANCE and row["metric"] != "mr" else ""
        text["kind"] = text["kind"] if comparable else ""
    return text


def _words(row: Mapping[Any, Any]) -> str:
    where = " ".join(name(row[part]) for part in ("dataset", "model", "loss", "negatives", "calibrator", "metric"))
    rate = f" at base rate {row['base_rate']:g}" if row["table"] == "base-rate" else ""
    rate += f" at {row['varied']} = {row[row['varied']]}" if row["varied"] else ""
    return f"{where}{rate}: {row['ours']:.4f}, the paper {row['paper']:.4f} ({row['difference']:+.4f})"


def name(key: Any) -> str:
    """What a reader sees for a key."""
    return f"{key:g}" if isinstance(key, float) else NAMES.get(str(key), str(key).replace("_", " "))


def sweep_figures(frame: pd.DataFrame) -> "dict[str, Figure]":
    """Brier score and log loss over base rates, eta and k: ours drawn through, the paper's dashed."""
    figures = {}
    rates = frame[frame["table"] == "base-rate"].assign(axis="base_rate")
    sizes = frame[frame["table"] == "sensitivity"]
    sizes = sizes[(sizes["calibrator"] == "isotonic")].assign(axis=sizes["varied"])
    for (dataset, metric, axis), part in pd.concat([rates, sizes]).groupby(["dataset", "metric", "axis"], sort=False):
        title = f"{dataset}: {name(metric)} over {name(axis)}"
        figures[title] = _lines(title, part, str(axis), str(metric))
    return figures


def _lines(title: str, frame: pd.DataFrame, axis: str, metric: str) -> "Figure":
    figure = new_figure(6.4, 4.6)
    axes = figure.subplots()
    groups = frame.groupby(["negatives", "calibrator"], sort=False)
    for number, ((negatives, calibrator), part) in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        label = " ".join(name(word) for word in (negatives, calibrator) if word != "none")
        axes.plot(part[axis], part["ours"], "o-", markersize=3.5, color=colour, label=label)
        axes.plot(part[axis], part["paper"], "--", linewidth=1, color=colour)
    if axis != "base_rate":
        axes.set_xscale("log")
        ticks = sorted(frame[axis].unique())
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.minorticks_off()
    axes.set(xlabel=name(axis), ylabel=name(metric), title=title)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9, title="dashed: the paper")
    return figure
