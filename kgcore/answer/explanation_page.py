"""The explanation of a probability as one HTML page, which needs no other files, and its picture."""

from typing import TYPE_CHECKING

import numpy as np

from kgcore.answer.calibration_evidence import CalibrationCurve, ScoreHistogram, TrueShare
from kgcore.answer.explanation import Explanation, UnseenExplanation
from kgcore.measure.report.data import html, svg
from kgcore.measure.report.plots import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TEMPLATE = "explanation.html.j2"
CALIBRATOR, TRUE, FALSE = COLOURS[0], COLOURS[2], COLOURS[1]


def explanation_page(made: Explanation | UnseenExplanation, dataset: str, model: str, run: str) -> str:
    """Return the page as HTML.

    dataset  name of the data set
    model    URI of the calibrator
    run      id of the MLflow run; '' if it is not known
    """
    if isinstance(made, UnseenExplanation):
        return html(TEMPLATE, made=made, dataset=dataset, model=model, run=run, groups={}, sides={}, figure="")
    figure, support = explanation_figure(made), made.support
    groups = {
        f"same subject: {made.subject} {made.predicate} ?": support.same_subject,
        f"same object: ? {made.predicate} {made.object}": support.same_object,
        "another subject and another object": support.others,
    }
    sides = {
        f"other objects: {made.subject} {made.predicate} ?": (made.object, made.objects),
        f"other subjects: ? {made.predicate} {made.object}": (made.subject, made.subjects),
    }
    drawn = figure and svg(figure)
    return html(TEMPLATE, made=made, dataset=dataset, model=model, run=run, groups=groups, sides=sides, figure=drawn)


def explanation_figure(made: Explanation) -> "Figure | None":
    """Draw the calibration curve of the predicate, with the score of the triple. None if there is no curve.

    A plot below it shows where the scores of the true and of the false calibration triples of the predicate are.
    """
    if made.curve is None or made.probability is None:
        return None
    figure = new_figure(7.2, 5.6)
    top, below = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
    _draw_curve(top, made.curve)
    if made.evidence is not None:
        _draw_shares(top, made.evidence.bins)
        _draw_histogram(below, made.evidence.histogram)
    top.axvline(made.score, color="0.3", linewidth=1, linestyle=":")
    below.axvline(made.score, color="0.3", linewidth=1, linestyle=":")
    label = f"this triple: score {made.score:.4g}, probability {made.probability:.3f}"
    top.plot([made.score], [made.probability], "D", color="black", markersize=7, label=label, zorder=5)
    top.set(ylim=(-0.02, 1.02), ylabel="share of true triples")
    top.set_title(f"Calibration curve of {made.predicate}, base rate {made.base_rate:.4g}", fontsize=11)
    top.set_xlim(made.curve.scores[0], made.curve.scores[-1])
    below.set(xlabel="score", ylabel="share of the\nlabel's triples")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    for axes in (top, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_curve(axes: "Axes", curve: CalibrationCurve) -> None:
    axes.plot(curve.scores, curve.probabilities, color=CALIBRATOR, linewidth=1.8, label="probability by the calibrator")
    if curve.low:
        axes.fill_between(
            curve.scores, curve.low, curve.high, color=CALIBRATOR, alpha=0.15, linewidth=0, label="its 95 % interval"
        )


def _draw_shares(axes: "Axes", bins: tuple[TrueShare, ...]) -> None:
    """Draw the share of true triples in each bin, with its interval, over the median score of the bin."""
    middles = [share_of_bin.median for share_of_bin in bins]
    shares = [share_of_bin.share for share_of_bin in bins]
    below = [share_of_bin.share - share_of_bin.low for share_of_bin in bins]
    above = [share_of_bin.high - share_of_bin.share for share_of_bin in bins]
    label = "share in the calibration triples of this predicate"
    axes.errorbar(middles, shares, (below, above), fmt="o", markersize=4, color="0.45", linewidth=1, label=label)


def _draw_histogram(axes: "Axes", found: ScoreHistogram) -> None:
    for counts, colour, label in ((found.positives, TRUE, "true"), (found.negatives, FALSE, "false")):
        shares = np.array(counts) / max(sum(counts), 1)
        axes.stairs(shares, found.edges, color=colour, fill=True, alpha=0.35, label=f"{label} calibration triples")
        axes.stairs(shares, found.edges, color=colour, linewidth=1.2)
