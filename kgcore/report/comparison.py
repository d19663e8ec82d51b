"""The HTML page of a reproduction. Every table cell shows the paper's value, our value and the difference."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
import numpy as np
import pandas as pd

from kgcore.metrics.catalogue import highest_best
from kgcore.report.comparison_names import TITLES, name
from kgcore.report.page import svg
from kgcore.reproduction.findings import TOLERANCE, findings, worse_than_paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGHEST_BEST_RANKS = frozenset(("mrr", "hits_at_10"))
_ROWS = {"losses": ["model", "loss"], "base-rate": ["base_rate"], "thresholds": ["relation"], "reliability": ["loss"]}
_ROWS |= {"sensitivity": ["varied", "eta", "k"]}
_ALL_METRICS = ("ranks", "thresholds")  # tables whose columns are metrics


@dataclass(frozen=True)
class Entry:
    """One cell of a table, as text.

    kind  better: our value is better than the paper's; worse: it is worse by more than TOLERANCE; '' otherwise
    """

    ours: str = ""
    paper: str = ""
    difference: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Grid:
    """A table of the page.

    by       headings of the columns that name a row
    columns  headings of the columns with values
    body     for each row, its names (one for each of `by`) and its entries (one for each of `columns`)
    note     what is special about the paper's values, such as `not held out`; or ''
    """

    title: str
    by: list[str]
    columns: list[str]
    body: list[tuple[list[str], list[Entry]]]
    note: str


@dataclass(frozen=True)
class Section:
    """The tables that reproduce one table of the paper."""

    title: str
    grids: list[Grid]


def comparison_page(
    title: str, frame: pd.DataFrame, figures: "dict[str, Figure]", failures: dict[str, str], notes: list[str]
) -> str:
    """Return the page as HTML.

    frame     the output of `side_by_side`
    figures   title -> plot at the end of the page
    failures  run -> a sentence with the reason for its failure
    notes     paragraphs below the title
    """
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = resources.files(__package__).joinpath("comparison.html.j2").read_text(encoding="utf-8")
    worse = worse_than_paper(frame)
    return environment.from_string(template).render(
        title=title,
        sections=[_section(str(table), part) for table, part in frame.groupby("table", sort=False)],
        findings=findings(frame),
        tolerance=TOLERANCE,
        worse=[_sentence(row) for row in worse.to_dict("records")],
        figures={heading: svg(figure) for heading, figure in figures.items()},
        failures=failures,
        notes=notes,
    )


def _section(table: str, frame: pd.DataFrame) -> Section:
    split = ["dataset"] if table in _ALL_METRICS else ["dataset", "metric"]
    parts = frame.groupby(split, sort=False)
    return Section(TITLES[table], [_grid(", ".join(name(key) for key in keys), table, part) for keys, part in parts])


def _grid(title: str, table: str, frame: pd.DataFrame) -> Grid:
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
        heads = [str(key) for key in keys] if by == ["relation"] else [name(key) for key in keys]
        body.append((heads, [_entry(cells.get(column)) for column in columns]))
    return Grid(
        title=title,
        by=["" if column == "varied" else name(column) for column in by],
        columns=[" ".join(name(part) for part in column if part != "none") for column in columns],
        body=body,
        note=", ".join(sorted(set(frame["note"]) - {""})),
    )


def _entry(row: Mapping[Any, Any] | None) -> Entry:
    """Return the table cell for a row of the frame; an empty cell if the row is None."""
    if row is None:
        return Entry()
    ours, paper, metric = row["ours"], row["paper"], row["metric"]
    digits = 0 if metric == "mr" else 2 if metric == "threshold" else 4
    own = "failed" if np.isnan(ours) else f"{ours:.{digits}f}"
    if np.isnan(paper):
        return Entry(own)
    if np.isnan(ours):
        return Entry(own, f"{paper:.{digits}f}")
    difference = ours - paper
    gain = difference if metric in highest_best() | HIGHEST_BEST_RANKS else -difference
    kind = "better" if gain > 0 else "worse" if gain < -TOLERANCE and metric != "mr" else ""
    comparable = row["negatives"] != "none" or not row["calibrator"]
    return Entry(own, f"{paper:.{digits}f}", f"{difference:+.{digits}f}", kind if comparable else "")


def _sentence(row: Mapping[Any, Any]) -> str:
    where = " ".join(name(row[part]) for part in ("dataset", "model", "loss", "negatives", "calibrator", "metric"))
    rate = f" at base rate {row['base_rate']:g}" if row["table"] == "base-rate" else ""
    rate += f" at {row['varied']} = {row[row['varied']]}" if row["varied"] else ""
    return f"{where}{rate}: {row['ours']:.4f}, the paper {row['paper']:.4f} ({row['difference']:+.4f})"
