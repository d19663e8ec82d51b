"""HTML pages that need no other files: templates of this folder, figures as SVG elements, and code in sentences."""

import io
import threading
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SVG = threading.Lock()  # matplotlib's settings are shared by all threads


def html(template: str, **values: object) -> str:
    """Return a page as HTML. `template` is a file of this folder, `values` what it uses."""
    loader = jinja2.PackageLoader("kgcore.measure.report", ".")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(template).render(**values)


def coded(sentence: str) -> Markup:
    """Return a sentence as HTML, in which what stands between backticks is code."""
    parts = (escape(part) for part in sentence.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(p) if number % 2 else p for number, p in enumerate(parts))


def svg(figure: "Figure") -> Markup:
    """Convert a figure to an inline SVG element. The same plotted values always give the same bytes."""
    import matplotlib

    buffer = io.StringIO()
    with _SVG, matplotlib.rc_context({"svg.hashsalt": "kgcal"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return Markup(text[text.index("<svg") :])  # noqa: S704 (matplotlib's own output)
