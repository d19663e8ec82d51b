"""The HTML page of a reproduction, and the paper's qualitative findings, tested on our values: a sentence for each.

Every table cell shows the paper's value, our value and the difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kgcore.measure.metrics.base import highest_best
from kgcore.measure.report.data import html, svg
from kgcore.measure.report.plots import COLOURS, new_figure
from kgcore.wings.reproduction.compare import NOT_HELD_OUT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROPER = ("brier", "log_loss")
TOLERANCE = 0.01  # a proper score may exceed the paper's score by at most this value
_RUN = ["dataset", "model", "loss", "base_rate", "eta", "k", "varied", "preset", "seed"]
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
HIGHEST_BEST_RANKS = frozenset(("mrr", "hits_at_10"))
_ROWS = {"losses": ["model", "loss"], "base-rate": ["base_rate"], "thresholds": ["relation"], "reliability": ["loss"]}
_ALL_METRICS = ("ranks", "thresholds")  # tables whose columns are metrics


def findings(frame: pd.DataFrame) -> list[str]:
    """Return a sentence for each finding and preset that `frame` has the rows for.

    frame  the output of `side_by_side`
    """
    presets = frame["preset"].unique().tolist()
    return [
        sentence + (f" (preset {preset})" if len(presets) > 1 else "")
        for find in FINDINGS
        for preset in presets
        if (sentence := find(frame[(frame["preset"] == preset) & frame["ours"].notna()]))
    ]


def averaged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `side_by_side`, one for all seeds of a cell.

    `ours` is the mean over the seeds, the further column `error` its standard error; NaN with one seed.
    """
    key = [column for column in frame.columns if column not in ("ours", "seed", "run_id")]
    seeds = frame.groupby(key, sort=False, dropna=False)["ours"]
    return seeds.agg(ours="mean", error="sem").reset_index()


def worse_than_paper(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose calibrated proper score exceeds the paper's by more than TOLERANCE, the largest first."""
    rows = _proper(frame)
    return rows[rows["difference"] > TOLERANCE].sort_values("difference", ascending=False)


def _proper(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the proper scores of calibrated probabilities for which the paper has a held-out value.

    The column `difference` is ours minus the paper's.
    """
    kept = frame["metric"].isin(PROPER) & frame["negatives"].isin(["ground_truth", "synthetic"])
    rows = frame[kept & frame["paper"].notna() & frame["ours"].notna() & (frame["note"] != NOT_HELD_OUT)]
    run = [column for column in _RUN if column in rows]
    rows = rows.drop_duplicates([*run, "negatives", "calibrator", "metric"])
    return rows.assign(difference=rows["ours"] - rows["paper"])


def _against_paper(frame: pd.DataFrame) -> str:
    difference = _proper(frame)["difference"]
    if difference.empty:
        return ""
    close, better = (difference <= TOLERANCE).mean(), (difference < 0).mean()
    return (
        f"Of {len(difference)} calibrated Brier scores and log losses, {close:.1%} exceed the paper's by at most "
        f"{TOLERANCE}, or are lower; {better:.1%} are lower; the largest difference (ours minus the paper's) is "
        f"{difference.max():+.4f}, the median {difference.median():+.4f}."
    )


def _brier_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each run, with the Brier score of each (negatives, calibrator) as a column."""
    rows = frame[frame["metric"] == "brier"].drop_duplicates([*_RUN, "negatives", "calibrator"])
    return rows.pivot_table(index=_RUN, columns=["negatives", "calibrator"], values="ours")


def _beats_uncalibrated(frame: pd.DataFrame) -> str:
    brier = _brier_scores(frame)
    if ("none", "uncalibrated") not in brier:
        return ""
    gaps = brier.sub(brier[("none", "uncalibrated")], axis=0).drop(columns="none", level=0)
    fits = gaps.stack([0, 1], future_stack=True).dropna()
    share = f"in {(fits < 0).mean():.1%} of {len(fits)} fits"
    if (fits < 0).all():
        return f"Calibration beats uncalibrated scores: this holds, {share}."
    names = ["dataset", "model", "loss", "negatives", "calibrator"]
    worst = pd.DataFrame({"gap": fits}).reset_index().sort_values("gap")[names].to_numpy(dtype=str)[-1]
    return (
        f"Calibration beats uncalibrated scores: this does not hold everywhere, but {share}; the Brier score is higher "
        f"by {fits.max():.4f} at most ({' '.join(worst)})."
    )


def _synthetic(frame: pd.DataFrame) -> str:
    brier = _brier_scores(frame)
    if not {"ground_truth", "synthetic"} <= set(brier.columns.get_level_values(0)):
        return ""
    gap = (brier["synthetic"] - brier["ground_truth"]).stack(future_stack=True).dropna()
    return (
        f"Synthetic calibration is close to ground truth: its Brier score is higher by {gap.mean():.4f} on average "
        f"and by {gap.max():.4f} at most ({' '.join(str(part) for part in gap.idxmax()[:3])})."
    )


def _isotonic(frame: pd.DataFrame) -> str:
    brier = _brier_scores(frame)
    gaps = [
        brier[(negatives, "isotonic")] - brier[(negatives, "platt")]
        for negatives in ("ground_truth", "synthetic")
        if {(negatives, "isotonic"), (negatives, "platt")} <= set(brier)
    ]
    if not gaps:
        return ""
    gap = pd.concat(gaps).dropna()
    return (
        f"Isotonic regression is no worse than Platt scaling: in {(gap <= 0.0005).mean():.1%} of {len(gap)} pairs "
        f"(within 0.0005); its Brier score is lower by {-gap.mean():.4f} on average."
    )


def _threshold(frame: pd.DataFrame) -> str:
    """Compare the accuracy with the one threshold 0.5, isotonic regression, with that of a threshold per relation."""
    rows = frame[(frame["metric"] == "accuracy") & (frame["relation"] == "")]
    accuracy = rows.pivot_table(index=_RUN, columns=["negatives", "calibrator"], values="ours")
    names = [("none", "per_relation"), ("none", "per_relation_learned"), ("ground_truth", "isotonic")]
    if not set(names) <= set(accuracy):
        return ""
    median, learned, one = (accuracy[name] for name in names)
    return (
        "One threshold of 0.5 replaces a threshold per relation: its accuracy, with isotonic regression and labels, "
        f"minus that of learned thresholds is {(one - learned).mean():+.4f} on average, minus that of medians "
        f"{(one - median).mean():+.4f} ({len(one)} run{'' if len(one) == 1 else 's'})."
    )


def _base_rates(frame: pd.DataFrame) -> str:
    """Say at how many base rates calibrated probabilities have a lower Brier score than the base rate itself."""
    brier = _brier_scores(frame[frame["table"] == "base-rate"])
    if ("none", "base_rate") not in brier:
        return ""
    below = brier["synthetic"].lt(brier[("none", "base_rate")], axis=0)
    return (
        f"Calibrated probabilities beat the base rate as a prediction: at {below.to_numpy().sum()} of {below.size} "
        f"(base rate, calibrator, data set)."
    )


def _sizes(frame: pd.DataFrame) -> str:
    """Describe how the Brier score moves with eta and with k, ours and the paper's."""
    rows = frame[(frame["table"] == "sensitivity") & (frame["metric"] == "brier")]
    rows = rows[(rows["calibrator"] == "isotonic") & (rows["negatives"] == "ground_truth")]
    parts = []
    for (dataset, varied), part in rows.groupby(["dataset", "varied"], sort=False):
        part = part.groupby(str(varied))[["ours", "paper"]].mean()
        if len(part) > 1:
            first, last = part.iloc[0], part.iloc[-1]
            parts.append(
                f"{name(varied)} {part.index[0]} to {part.index[-1]} on {dataset}: {first['ours']:.3f} to "
                f"{last['ours']:.3f}, the paper {first['paper']:.3f} to {last['paper']:.3f}"
            )
    return f"Brier score, labels, isotonic regression, by size: {'; '.join(parts)}." if parts else ""


def _ranks(frame: pd.DataFrame) -> str:
    """Describe the correlation of ranks with Brier scores, over all runs and within each data set.

    Only Brier scores within a data set are directly comparable, because they share their test set.
    """
    rows = frame[frame["metric"].isin(["brier", "mrr"])].drop_duplicates([*_RUN, "negatives", "calibrator", "metric"])
    ours, theirs = (_mrr_and_brier(rows, of) for of in ("ours", "paper"))
    if len(ours) < 4:
        return ""
    sentence = (
        f"Ranks and calibration: Spearman's correlation of MRR with the isotonic Brier score is {_correlations(ours)}; "
        "-1 means that a higher MRR always comes with a lower Brier score, 0 that the two are unrelated."
    )
    return f"{sentence} In the paper's own results it is {_correlations(theirs)}." if len(theirs) >= 4 else sentence


def _mrr_and_brier(rows: pd.DataFrame, of: str) -> pd.DataFrame:
    """Return the MRR and the lowest isotonic Brier score of every run, from the column `of`: ours or paper."""
    runs = rows.set_index(_RUN)
    mrr = runs[runs["metric"] == "mrr"][of]
    fitted = runs[(runs["metric"] == "brier") & (runs["calibrator"] == "isotonic")]
    brier = fitted.groupby(level=_RUN)[of].min()
    return pd.concat([mrr.rename("mrr"), brier.rename("brier")], axis=1).dropna()


def _correlations(both: pd.DataFrame) -> str:
    def spearman(runs: pd.DataFrame) -> float:
        return float(runs["mrr"].rank().corr(runs["brier"].rank()))

    each = {str(name): spearman(runs) for name, runs in both.groupby("dataset") if len(runs) >= 4}
    within = ", ".join(f"{name} {value:+.2f}" for name, value in each.items() if value == value)
    return f"{spearman(both):+.2f} over all {len(both)} runs ({within})"


FINDINGS = (_against_paper, _beats_uncalibrated, _synthetic, _isotonic, _threshold, _base_rates, _sizes, _ranks)


def name(key: object) -> str:
    """Return the name that the page shows for a key. A number is written in its shortest form."""
    return f"{key:g}" if isinstance(key, float) else NAMES.get(str(key), str(key).replace("_", " "))


@dataclass(frozen=True)
class ComparedCell:
    """One value in a cell of a table, as text. A cell has a value of the paper, and one of ours for each preset.

    preset  the preset, if the table has several; else ''
    kind    better: our value is better than the paper's; worse: it is worse by more than TOLERANCE; '' otherwise
    """

    ours: str
    preset: str = ""
    difference: str = ""
    kind: str = ""


def comparison_page(
    title: str,
    frame: pd.DataFrame,
    figures: "dict[str, Figure]",
    failures: Mapping[str, str],
    notes: Sequence[str],
    sentences: Sequence[str],
) -> str:
    """Return the page as HTML.

    frame      the output of `side_by_side`
    figures    title -> plot at the end of the page
    failures   runs -> a sentence with the reason for their failure
    notes      paragraphs below the title
    sentences  the findings
    """
    frame = averaged(frame)
    worse = worse_than_paper(frame)
    return html(
        "comparison.html.j2",
        title=title,
        sections=[(TITLES[str(table)], _grids(str(table), part)) for table, part in frame.groupby("table", sort=False)],
        findings=sentences,
        tolerance=TOLERANCE,
        worse=[_sentence(row) for row in worse.to_dict("records")],
        figures={heading: svg(figure) for heading, figure in figures.items()},
        failures=failures,
        notes=notes,
    )


def _grids(table: str, frame: pd.DataFrame) -> list[dict[str, object]]:
    """Return the tables of the page that show one table of the paper: one a data set and, for most, a metric."""
    split = ["dataset"] if table in _ALL_METRICS else ["dataset", "metric"]
    parts = frame.groupby(split, sort=False)
    return [_grid(table, rows) | {"title": ", ".join(name(key) for key in keys)} for keys, rows in parts]


def _grid(table: str, frame: pd.DataFrame) -> dict[str, object]:
    """Return the headings `by` of rows, those of `columns`, the `body` of names and cells, and the paper's `note`."""
    by = _ROWS.get(table, ["model"])
    if table == "sensitivity":
        frame = frame.assign(size=np.where(frame["varied"] == "eta", frame["eta"], frame["k"]))
        by = ["varied", "size"]
    across = ["metric"] if table == "ranks" else ["calibrator", "metric"] if table == "thresholds" else []
    across = across or ["negatives", "calibrator"]
    columns = list(dict.fromkeys(frame[across].itertuples(index=False, name=None)))
    several = frame["preset"].nunique() > 1
    body = []
    for keys, rows in frame.groupby(by, sort=False):
        heads = [str(key) for key in keys] if by == ["relation"] else [name(key) for key in keys]
        cells = {key: part.to_dict("records") for key, part in rows.groupby(across, sort=False)}
        body.append((heads, [_cell(cells.get(column, []), several) for column in columns]))
    return {
        "by": ["" if column == "varied" else name(column) for column in by],
        "columns": [" ".join(name(rows) for rows in column if rows != "none") for column in columns],
        "body": body,
        "note": ", ".join(sorted(set(frame["note"]) - {""})),
    }


def _cell(rows: Sequence[Mapping[Any, Any]], several: bool) -> dict[str, object]:
    """Return the `paper`'s value and `ours`, a ComparedCell for each row. The rows differ in the preset alone."""
    paper = [_text(row["paper"], row["metric"]) for row in rows[:1] if not np.isnan(row["paper"])]
    return {"paper": "".join(paper), "ours": [_compared(row, several) for row in rows]}


def _text(value: float, metric: str, sign: str = "") -> str:
    return f"{value:{sign}.{ {'mr': 0, 'threshold': 2}.get(metric, 4) }f}"


def _compared(row: Mapping[Any, Any], several: bool) -> ComparedCell:
    ours, metric, preset = row["ours"], row["metric"], row["preset"] if several else ""
    if np.isnan(ours):
        return ComparedCell("failed", preset)
    shown = _text(ours, metric) + ("" if np.isnan(row["error"]) else f" ± {_text(row['error'], metric)}")
    if np.isnan(row["paper"]):
        return ComparedCell(shown, preset)
    difference = ours - row["paper"]
    gain = difference if metric in highest_best() | HIGHEST_BEST_RANKS else -difference
    kind = "better" if gain > 0 else "worse" if gain < -TOLERANCE and metric != "mr" else ""
    comparable = row["negatives"] != "none" or not row["calibrator"]
    return ComparedCell(shown, preset, _text(difference, metric, "+"), kind if comparable else "")


def _sentence(row: Mapping[Any, Any]) -> str:
    where = " ".join(name(row[part]) for part in ("dataset", "model", "loss", "negatives", "calibrator", "metric"))
    rate = f" at base rate {row['base_rate']:g}" if row["table"] == "base-rate" else ""
    rate += f" at {row['varied']} = {row[row['varied']]}" if row["varied"] else ""
    values = f"{row['ours']:.4f}, the paper {row['paper']:.4f} ({row['difference']:+.4f})"
    return f"{where}{rate}, preset {row['preset']}: {values}"


def sweep_figures(frame: pd.DataFrame) -> "dict[str, Figure]":
    """Plot each metric over the base rate, eta or k. Return title -> figure. Solid lines: ours; dashed: the paper's."""
    figures = {}
    rates = frame[frame["table"] == "base-rate"].assign(axis="base_rate")
    sizes = frame[frame["table"] == "sensitivity"]
    sizes = sizes[(sizes["calibrator"] == "isotonic")].assign(axis=sizes["varied"])
    by = ["dataset", "metric", "axis", "preset"]
    for (dataset, metric, axis, preset), rows in averaged(pd.concat([rates, sizes])).groupby(by, sort=False):
        title = f"{dataset}: {name(metric)} over {name(axis)}, preset {preset}"
        figures[title] = _lines(title, rows, str(axis), str(metric))
    return figures


def _lines(title: str, frame: pd.DataFrame, axis: str, metric: str) -> "Figure":
    figure = new_figure(6.4, 4.6)
    axes = figure.subplots()
    groups = frame.groupby(["negatives", "calibrator"], sort=False)
    for number, ((negatives, calibrator), rows) in enumerate(groups):
        colour = COLOURS[number % len(COLOURS)]
        label = " ".join(name(word) for word in (negatives, calibrator) if word != "none")
        axes.plot(rows[axis], rows["ours"], "o-", markersize=3.5, color=colour, label=label)
        axes.plot(rows[axis], rows["paper"], "--", linewidth=1, color=colour)
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
