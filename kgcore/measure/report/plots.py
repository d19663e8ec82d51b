"""Plots of results, drawn with matplotlib's object interface, which has no global state."""

from typing import TYPE_CHECKING, Literal

import numpy as np

from kgcore.arrays import Floats
from kgcore.measure.evaluation.evaluate import Measured
from kgcore.measure.metrics.reliability import Reliability
from kgcore.mixture.fit import POSITIVES
from kgcore.mixture.matched import SMALLEST_SHOWN, Matched

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe & Ito: safe for colour-blind readers
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
# (marker and line, hatch) of the first six calibrators, of the next six, and of the six after these
STYLES = (("o-", ""), ("s--", "////"), ("^:", "...."))


def new_figure(width: float, height: float, layout: Literal["constrained"] | None = "constrained") -> "Figure":
    """Return an empty figure of `width` by `height` inches.

    layout  "constrained": matplotlib finds the margins whenever the figure is saved; None: the caller sets them

    Matplotlib takes half a second to load. Therefore the functions that draw import it, and the module does not.
    """
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout=layout)


def observed_title(confidences: bool) -> str:
    """Return what a reliability diagram shows over the probability; `confidences`: whether triples have confidences."""
    return "mean confidence" if confidences else "share of true triples"


def reliability_figure(title: str, measured: dict[str, Measured], confidences: bool = False) -> "Figure":
    """Draw a reliability diagram: observed share of true triples over predicted probability, with 95 % Wilson bands.

    A second plot below it shows the share of triples in each bin.

    measured     name in the legend -> results of the calibrator. Each of the first six calibrators has its own colour.
                 From the seventh, the colours repeat with other markers, lines and hatches
    confidences  whether the triples have confidences, whose mean is then the observed share
    """
    from matplotlib.collections import PolyCollection

    width, height = 6.4, 7.2
    figure = new_figure(width, height, layout=None)
    diagram, histogram = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    diagram.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="perfect calibration")
    for number, (label, result) in enumerate(measured.items()):
        bins, colour = result.reliability, COLOURS[number % len(COLOURS)]
        line, hatch = STYLES[number // len(COLOURS) % len(STYLES)]
        name = f"{label}  (ECE {bins.ece:.3f})"
        diagram.plot(bins.predicted, bins.observed, line, markersize=4, color=colour, label=name)
        diagram.fill_between(bins.predicted, bins.low, bins.high, color=colour, alpha=0.18, linewidth=0)
        bars = list(_bars(bins, number, len(measured)))
        histogram.add_collection(PolyCollection(bars, facecolor=colour, hatch=hatch, edgecolor="white", linewidth=0))
    diagram.set(xlim=(0, 1), ylim=(0, 1), ylabel=observed_title(confidences), title=title)
    legend = figure.legend(loc="lower center", ncols=2, frameon=False, fontsize=9)
    histogram.set(xlabel="predicted probability", ylabel="share of triples", xticks=np.linspace(0, 1, 6))
    histogram.autoscale_view()
    histogram.set_ylim(bottom=0)
    for axes in (diagram, histogram):
        axes.spines[["top", "right"]].set_visible(False)
    rows = -(-len(legend.get_texts()) // 2)
    below = 0.7 + 0.19 * rows  # inches for the ticks, the label, and the rows of the legend
    # if matplotlib finds the margins, the figure takes twice as long
    figure.subplots_adjust(0.8 / width, below / height, 1 - 0.25 / width, 1 - 0.35 / height, hspace=0.06)
    return figure


def _bars(bins: Reliability, number: int, of: int) -> Floats:
    """Return the corners (bins, 4, 2) of the bars that show the weights of the bins; bar `number` of `of` in a bin."""
    width = (bins.upper - bins.lower) / (of + 1)
    left, zero = bins.lower + width * (number + 0.5), np.zeros(len(bins.weight))
    right, top = left + width, bins.weight
    return np.stack([np.stack([left, left, right, right], 1), np.stack([zero, top, top, zero], 1)], 2)


def reliability_figures(measured: dict[str, Measured], confidences: bool = False) -> "dict[str, Figure]":
    """Draw a reliability diagram for each kind of negatives. Return name -> figure.

    A diagram shows the uncalibrated scores and all calibrators fitted on these negatives.

    measured     calibrator label -> its results
    confidences  whether the triples have confidences
    """
    titles = {
        "ground_truth": "calibrated to confidences" if confidences else "calibrated with labelled negatives",
        "candidates": "calibrated to candidates",
        "synthetic": "calibrated with synthetic negatives",
    }
    figures = {}
    for negatives in sorted({label.rpartition(".")[0] for label in measured} - {""}):
        shown = {"uncalibrated": measured["uncalibrated"]} if "uncalibrated" in measured else {}
        shown |= {label: result for label, result in measured.items() if label.startswith(f"{negatives}.")}
        labels = {label.rpartition(".")[2].replace("_", " "): result for label, result in shown.items()}
        figures[f"reliability_{negatives}"] = reliability_figure(
            f"Reliability, {titles[negatives]}", labels, confidences
        )
    return figures


def candidates_figure(matched: Matched) -> "Figure":
    """Draw the share of the candidates in each bin of scores, above the parts that the mixture has there.

    The bins have different widths; each has the same width in the picture.
    """
    shape, fit = matched.fit.shape, matched.fit
    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    places, below = np.arange(len(shape.candidates)), np.zeros(len(shape.candidates))
    parts = {name: np.array(shares) for name, shares in shape.parts.items() if sum(shares) >= SMALLEST_SHOWN}
    for number, (name, shares) in enumerate(parts.items()):
        label = f"{_title(name)}: {100 * shares.sum():.1f} %"
        axes.bar(places, shares, 1.0, bottom=below, color=COLOURS[number % len(COLOURS)], label=label, linewidth=0)
        below += shares
    ends = np.arange(len(places) + 1) - 0.5
    axes.stairs(shape.candidates, ends, baseline=None, color="black", linewidth=1.2, label="candidates")
    ticks = np.unique(np.linspace(0, len(shape.edges) - 1, 7).round().astype(int))
    axes.set_xticks(ticks + 0.5, [f"{shape.edges[tick]:.3g}" for tick in ticks])
    total = fit.candidates
    axes.set(xlabel="score", ylabel="share in a bin of scores", title=f"{total:,} candidates of {matched.source}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _title(part: str) -> str:
    return "true triples" if part == POSITIVES else f"mistakes like {part.replace('_', ' ')}"
