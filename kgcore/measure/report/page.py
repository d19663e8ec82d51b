"""The report of a pipeline as one HTML page, which needs no other files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kgcore.combiners.ablation import Ablation
from kgcore.config.base import value_text
from kgcore.measure.evaluation.groups import METRICS_OF_GROUPS
from kgcore.measure.metrics.base import decimals, every_metric
from kgcore.measure.report.data import coded, count_title, html, shown_settings, svg
from kgcore.measure.report.plots import candidates_figure, observed_title
from kgcore.measure.report.race import Race, race_cells, race_head
from kgcore.measure.report.results import Results, first_table, further_tables, without_interval
from kgcore.measure.report.summary import Summary
from kgcore.mixture.matched import Matched

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(
    title: str,
    summary: Summary,
    audits: dict[str, dict[str, float]],
    figures: "dict[str, Figure]",
    counts: dict[str, int],
    settings: Mapping[str, Mapping[str, object]],
    runs: dict[str, str],
    candidates: Matched | None = None,
    race: Race | None = None,
    ablation: Ablation | None = None,
) -> str:
    """Return the page as HTML.

    summary   the results of the evaluation
    audits    key corruptions: audit of the validation corruptions; keys synthetic, ground_truth and candidates: audit
              of the scores that calibrators were fitted on, with these negatives
    figures   title -> plot
    counts    name -> count of the data set, such as its number of duplicate rows
    settings  stage -> its settings
    runs      stage -> its MLflow run id
    candidates  the candidates that calibrators were fitted to; None: there are none
    race        the race that chose the training settings; None: there was none
    ablation    what each group of evidence adds; None: no calibrator sees evidence of labelled triples
    """
    return render(
        "page.html.j2",
        title,
        summary.results,
        settings,
        summary=summary,
        what="test triples",
        audits=audits,
        knowledge=summary.knowledge,
        metrics_of_groups=METRICS_OF_GROUPS,
        relations=summary.relations,
        figures={name: svg(figure) for name, figure in figures.items()},
        candidates=candidates,
        mixture=svg(candidates_figure(candidates)) if candidates else "",
        race=race,
        race_rows=race_cells(race) if race else [],
        race_head=race_head(race) if race else [],
        ablation=ablation,
        counts=counts,
        runs=runs,
    )


def render(
    template: str, title: str, results: Results, settings: Mapping[str, Mapping[str, object]], **values: object
) -> str:
    """Return a page with tables of results as HTML.

    template  file of this folder
    settings  stage -> its settings
    values    further values that the template uses
    """
    best = results.best_fitted()
    return html(
        template,
        title=title,
        rows=results.rows,
        best=results.best(),
        metrics=every_metric(),
        first_table=first_table(results.confidences),
        further_tables=further_tables(),
        uncertainty=next((row.metrics.get("brier_uncertainty") for row in results.rows), None),  # the same in every row
        level=settings.get("evaluate", {}).get("bootstrap_level"),
        without_interval=without_interval(),
        best_label=best.label if best else "",
        observed=observed_title(results.confidences),
        coded=coded,
        decimals=decimals,
        settings={stage: values for stage, values in shown_settings(settings).items() if values},
        count_title=count_title,
        value_text=value_text,
        **values,
    )
