"""The report: one HTML file that needs nothing beside it."""

import io
import threading
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from kgcore.report.summary import CALIBRATION, DISCRIMINATION, SHOWN, best, interval, rows, word

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MORE = {  # the tables beside the first, by what is said above them
    "Calibration: are the probabilities right? Lower is better.": CALIBRATION,
    "Discrimination: do true triples have higher probabilities? Higher is better, but for sharpness.": (
        *DISCRIMINATION,
        "sharpness",
    ),
}
_SVG = threading.Lock()  # matplotlib's settings are one for all threads


def page(
    title: str,
    summary: dict[str, Any],
    notes: list[str],
    audits: dict[str, dict[str, float]],
    figures: "dict[str, Figure]",
    counts: dict[str, int],
    settings: dict[str, dict[str, Any]],
    runs: dict[str, str],
) -> str:
    """The page as HTML.

    summary   what `summarise` made
    notes     sentences a reader must know, such as what the negatives are
    audits    of the validation corruptions what `audit` found, and by the kind of negatives what `score_audit` did
    counts    the data set's counts; settings: stage -> its settings; runs: stage -> its MLflow run id
    """
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = resources.files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=title,
        rows=rows(summary),
        best=best(summary),
        metrics=SHOWN,
        more=MORE,
        uncertainty=_uncertainty(summary),
        level=settings.get("evaluate", {}).get("bootstrap_level"),
        interval=partial(interval, summary),
        word=word,
        summary=summary,
        notes=notes,
        audits=audits,
        best_label=best_label(summary),
        relations=[row for row in summary.get("relations", []) if "calibrators" in row],
        figures={name: svg(figure) for name, figure in figures.items()},
        counts=counts,
        settings={stage: values for stage, values in settings.items() if values},
        runs=runs,
    )


def best_label(summary: dict[str, Any]) -> str:
    """The fitted calibrator with the lowest Brier score, `ground_truth.isotonic`; '' where there is none."""
    fitted = [(row["brier"], f"{negatives}.{name}") for negatives, name, row in rows(summary) if negatives]
    return min(fitted)[1] if fitted else ""


def _uncertainty(summary: dict[str, Any]) -> float | None:
    """The Brier score's uncertainty, which is of the triples: the same in every row."""
    return next((values.get("brier_uncertainty") for _, _, values in rows(summary)), None)


def svg(figure: "Figure") -> Markup:
    """The figure as an inline SVG element, the same bytes for the same numbers."""
    import matplotlib

    buffer = io.StringIO()
    with _SVG, matplotlib.rc_context({"svg.hashsalt": "kgcal"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 (matplotlib's own output)
