"""report: write the results as one HTML file, and the figures as PNG files for the MLflow UI."""

from kgcore.config import ReportConfig
from kgcore.registries import METRICS
from tasks.stages.choose import CHOOSE
from tasks.stages.evaluate import EVALUATE
from tasks.stages.running import Stage, StageRun
from tasks.tracking.artifacts import (
    ABLATION,
    CALIBRATION_AUDIT,
    CORRUPTION_AUDIT,
    COUNTS,
    MATCHED,
    MEASURED,
    RACE,
    SUMMARY,
)
from tasks.tracking.artifacts import REPORT as PAGE


def _body(run: StageRun, config: ReportConfig) -> None:
    from kgcore.measure.report.page import page
    from kgcore.measure.report.plots import reliability_figures

    summary = run.load(SUMMARY)
    runs = {name: run.inputs[name] for name in EVALUATE.lineage() if name in run.inputs}
    settings = {name: dict(run.upstream(name).tags.config or {}) for name in runs}
    measured = run.load(MEASURED)
    figures = reliability_figures(measured, summary.results.confidences)
    corruptions, calibration = run.load(CORRUPTION_AUDIT), run.load(CALIBRATION_AUDIT)
    html = page(
        title=f"{settings['train']['model']} on {run.dataset.name}: calibrated probabilities",
        summary=summary,
        audits={"corruptions": corruptions["valid"], **calibration},
        figures=figures,
        counts=run.load(COUNTS),
        settings=settings,
        runs=runs,
        curves={label: found.reliability for label, found in measured.items()},
        candidates=run.load(MATCHED) if "match" in run.inputs else None,
        ablation=run.load(ABLATION) if run.has(ABLATION) else None,
        race=run.load(RACE) if "choose" in run.inputs else None,
    )
    run.save(PAGE, html)
    for name, figure in figures.items():
        run.log_figure(name, figure)


REPORT = Stage(
    name="report",
    summary="Write the report of an evaluate run.",
    title="report {evaluation}",
    config=ReportConfig,
    body=_body,
    code=lambda config: (
        "kgcore.measure.report.page",
        "kgcore.measure.report.plots",
        *map(METRICS.module, METRICS.names()),
    ),
    inputs={"evaluation": EVALUATE, "choice": CHOOSE},
    optional=("choice",),
)
