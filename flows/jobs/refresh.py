"""The Prefect flow that runs the stages after a single stage again."""

from flows.flow import flow
from flows.job import Argument, job, publish
from flows.parameters import Device, RunId
from kgcore.measure.report.summary import PipelineSummary
from tasks.jobs.refresh import refresh_later
from tasks.stages.running import Context
from tasks.workspace.flow_run import current_flow_run


@job(shown={"run": Argument("RUN")}, kind="care")
@flow(name="refresh", flow_run_name="refresh after {run}")
def refresh(run: RunId, force: bool = False, device: Device = "auto") -> PipelineSummary:
    """Bring the later stages up to date after a single stage ran again.

    They keep the settings of their newest runs. A stage that is up to date is re-used. The results are those of a new
    pipeline, which `latest` then names.

    Args:
        run: run id of the stage that ran again, or STAGE:ID
        force: run every later stage even if a finished run could be re-used
        device: auto, cpu, cuda or cuda:N
    """
    flow_run = current_flow_run()
    return publish(refresh_later(run, Context(force=force, device=device), flow_run.id if flow_run else None))
