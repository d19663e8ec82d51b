"""report: one HTML file, and the figures where the MLflow UI shows them."""

from kgcore import storage
from kgcore.config import ReportConfig
from kgcore.report.page import page
from kgcore.report.plots import reliability_figures
from tasks.stages.base import Context, StageRef, StageRun, run_stage, stage_task


@stage_task
def write_report(evaluation: StageRef, config: ReportConfig = ReportConfig(), context: Context = Context()) -> StageRef:
    """Write the report of an evaluation. Artifacts: report.html, figures/."""

    def body(run: StageRun) -> None:
        measured = run.load("evaluate", "measured.json", storage.read_measured)
        summary = run.load("evaluate", "summary.json", storage.read_json)
        settings = {stage: run.config(stage) for stage in run.inputs}
        figures = reliability_figures(measured)
        audits = {
            "corruptions": run.load("corrupt", "audit.json", storage.read_json)["valid"],
            **run.load("calibrate", "audit.json", storage.read_json),
        }
        html = page(
            title=f"{settings['train']['model']} on {run.dataset[0]}: calibrated probabilities",
            summary=summary,
            notes=summary["notes"],
            audits=audits,
            figures=figures,
            counts=run.load("prepare", "counts.json", storage.read_json),
            settings=settings,
            runs=run.inputs,
        )
        (run.folder / "report.html").write_text(html, encoding="utf-8")
        for name, figure in figures.items():
            run.log_figure(name, figure)

    return run_stage("report", config, (evaluation,), ("kgcore.report.page", "kgcore.report.plots"), body, context)
