"""The data report as one HTML page, which needs no other files."""

from collections.abc import Sequence
from importlib import resources

import jinja2

from kgcore.datasets.twins import SHARE
from kgcore.graph import KnowledgeGraph
from kgcore.report.graph_confidences import Confidences
from kgcore.report.graph_findings import Finding
from kgcore.report.graph_shape import Shape

MOST_ROWS = 200  # predicates and pairs of predicates that the page shows


def graph_page(
    graph: KnowledgeGraph, shape: Shape, found: Sequence[Finding], confidences: Confidences | None = None
) -> str:
    """Return the page as HTML.

    found        the findings about the graph: see `findings` and `confidence_findings`
    confidences  the confidences of the training triples; None: they have none
    """
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = resources.files(__package__).joinpath("graph.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        name=graph.name,
        findings=found,
        predicates=shape.predicates[:MOST_ROWS],
        total=len(shape.predicates),
        twins=(shape.twins or ())[:MOST_ROWS],
        pairs=len(shape.twins or ()),
        share=SHARE,
        confidences=confidences,
        confident=confidences.predicates[:MOST_ROWS] if confidences else (),
    )
