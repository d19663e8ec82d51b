"""The picture of the candidates' scores and of the parts of their mixture."""

from typing import TYPE_CHECKING

import numpy as np

from kgcore.calibration.matched import SMALLEST_SHOWN, Matched
from kgcore.mixture.fit import POSITIVES
from kgcore.report.plots import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def candidates_figure(matched: Matched) -> "Figure":
    """Draw the share of the candidates in each bin of scores, above the parts that the mixture has there.

    The bins have different widths; each has the same width in the picture.
    """
    shape, fit = matched.fit.shape, matched.fit
    figure = new_figure(6.4, 4.4)
    axes = figure.subplots()
    places, below = np.arange(len(shape.candidates)), np.zeros(len(shape.candidates))
    parts = {name: np.array(own) for name, own in shape.parts.items() if sum(own) >= SMALLEST_SHOWN}
    for number, (name, own) in enumerate(parts.items()):
        label = f"{_title(name)}: {100 * own.sum():.1f} %"
        axes.bar(places, own, 1.0, bottom=below, color=COLOURS[number % len(COLOURS)], label=label, linewidth=0)
        below += own
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
