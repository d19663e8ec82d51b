"""prefect.yaml, made from the jobs: at least one deployment for each job and each stage. `make generated` writes it."""

import json

from flows.job import Deployment, Job, all_jobs

HEAD = """\
# Written by `make generated` from the jobs in flows/. `kgcal up` creates these deployments and starts a worker for
# them. There is no `pull` step: a run starts in the folder from which it was deployed.
name: kgcal
prefect-version: 3.8.8

definitions:
  work_pool: &local
    name: local-process
    job_variables:
      stream_output: false # otherwise a running flow dies with its worker
      env:
        PREFECT_LOGGING_EXTRA_LOGGERS: kgcal
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY: "30" # a run without heartbeats is marked as crashed

deployments:
"""


def prefect_yaml() -> str:
    """Return the text of prefect.yaml."""
    return HEAD + "".join(_entry(job, deployment) for job in all_jobs() for deployment in job.deployments)


def _entry(job: Job, deployment: Deployment) -> str:
    description = deployment.description or job.summary
    lines = [f"name: {deployment.name}", f"entrypoint: {job.entrypoint}", f"description: {json.dumps(description)}"]
    lines.append(f"tags: [{job.kind}]")
    if deployment.cron is None:
        lines.append("schedules: []")
    else:
        lines += ["schedules:", f'  - cron: "{deployment.cron}"', "    timezone: UTC", "    active: true"]
    if deployment.cron is not None or deployment.alone:
        lines += ["concurrency_limit:", "  limit: 1", "  collision_strategy: CANCEL_NEW"]
    lines.append("work_pool: *local")
    return "  - " + "\n    ".join(lines) + "\n"


if __name__ == "__main__":
    print(prefect_yaml(), end="")
