"""The deployments; `python -m flows.deployment.deployments > prefect.yaml` writes them for Prefect."""

from dataclasses import dataclass

from tasks.stages.table import STAGES

HEAD = """\
# Made by `make generated` from flows/deployment/deployments.py. `kgcal up` deploys this and starts a worker for it.
# There is no `pull` step: a run starts in the folder that it was deployed from.
name: kgcal
prefect-version: 3.8.8

definitions:
  work_pool: &local
    name: local-process
    job_variables:
      stream_output: false # otherwise a worker that dies takes a running flow with it
      env:
        PREFECT_LOGGING_EXTRA_LOGGERS: kgcal
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: "30" # a run without heartbeats is marked as crashed

deployments:
"""


@dataclass(frozen=True)
class Deployment:
    """A flow that a Prefect server can start.

    name         what people call it by: `prefect deployment run FLOW/NAME`
    entrypoint   FILE:FLOW
    description  one sentence
    cron         when it runs by itself, in UTC, never two at once; None = only when it is asked to
    """

    name: str
    entrypoint: str
    description: str
    cron: str | None = None

    def yaml(self) -> str:
        """Its entry in prefect.yaml."""
        lines = [f"name: {self.name}", f"entrypoint: {self.entrypoint}", f"description: {self.description}"]
        if self.cron is None:
            lines.append("schedules: []")
        else:
            lines += ["schedules:", f'  - cron: "{self.cron}"', "    timezone: UTC", "    active: true"]
            lines += ["concurrency_limit:", "  limit: 1", "  collision_strategy: CANCEL_NEW"]
        lines.append("work_pool: *local")
        return "  - " + "\n    ".join(lines) + "\n"


JOBS = (
    Deployment("pipeline", "flows/pipeline.py:pipeline", "From a data set to calibrated probabilities and a report."),
    Deployment(
        "nightly",
        "flows/pipeline.py:pipeline",
        "The pipeline every night; stages whose inputs have not changed are re-used.",
        cron="17 3 * * *",
    ),
    Deployment(
        "recalibrate",
        "flows/recalibrate.py:recalibrate",
        "New probabilities from a trained model every week, for new labels or a new base rate; trains nothing.",
        cron="43 4 * * 1",
    ),
    Deployment(
        "promote",
        "flows/promote.py:promote",
        "Every day the best calibrated model of each data set challenges the champion.",
        cron="7 5 * * *",
    ),
    Deployment(
        "watch",
        "flows/watch.py:watch",
        "Check the champion on newly labelled triples; warn of drift, or recalibrate. Schedule it with your file.",
    ),
    Deployment(
        "tune", "flows/tune.py:tune", "Search for training settings; the same settings again resume the search."
    ),
    Deployment("ensemble", "flows/ensemble.py:ensemble", "Ensembles of calibrated models, beside their members."),
    Deployment(
        "reproduce", "flows/reproduce.py:reproduce", "The paper's tables and figures beside ours; runs what is missing."
    ),
)
DEPLOYMENTS = (
    *JOBS,
    *(Deployment(f"stage-{stage.name}", f"flows/stages.py:{stage.name}", stage.summary) for stage in STAGES),
)


def prefect_yaml() -> str:
    """The text of prefect.yaml."""
    return HEAD + "".join(deployment.yaml() for deployment in DEPLOYMENTS)


if __name__ == "__main__":
    print(prefect_yaml(), end="")
