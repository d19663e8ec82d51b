"""The Prefect flow that combines calibrated models into ensembles."""

from typing import Annotated

from pydantic import Field

from flows.flow import flow
from flows.job import Argument, job, publish
from flows.parameters import RunId
from kgcore.config import EnsembleConfig
from kgcore.measure.report.ensemble_summary import EnsembleSummary
from tasks.jobs.ensemble import ensemble_models, ensemble_summary
from tasks.jobs.manifest import resolve
from tasks.stages.running import Context


@job(shown={"runs": Argument("RUN")})
@flow(name="ensemble", flow_run_name="ensemble by {config.member_calibrator}")
def ensemble(
    runs: Annotated[list[RunId], Field(json_schema_extra={"minItems": 2, "uniqueItems": True})],
    config: EnsembleConfig = EnsembleConfig(),
    force: bool = False,
) -> EnsembleSummary:
    """Pool calibrated models of one data set, and compare the ensembles with their members.

    Args:
        runs: two or more pipelines of one data set, or runs that came from them, with different models, losses or seeds
        config: how to combine the models
        force: run even if a finished run could be re-used
    """
    members = tuple(resolve("calibrate", run) for run in runs)
    summary = ensemble_summary(ensemble_models(members, config, Context(force=force)))
    return publish(summary)
