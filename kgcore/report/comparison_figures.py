"""Plots of a reproduction: our metrics and the paper's metrics over the base rate, eta and k."""

from typing import TYPE_CHECKING

import pandas as pd

from kgcore.report.comparison_names import name
from kgcore.report.plots import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweep_figures(frame: pd.DataFrame) -> "dict[str, Figure]":
    """Plot each metric over the base rate, eta or k. Return title -> figure. Solid lines: ours; dashed: the paper's."""
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
