"""The Prefect flows of questions: `flows.questions.predict` is that of `flows/jobs/predict.py`, and so on.

A command calls the function of a question where no Prefect server runs. Deployments and servers need a flow.
"""

from typing import Any

from flows.flow import HeartbeatFlow, flow
from flows.job import job_modules, jobs_of


def __getattr__(name: str) -> HeartbeatFlow[..., Any]:
    """Return the flow of a question. Python calls it for a name that the module does not have yet."""
    if f"flows.jobs.{name}" in job_modules():
        for job in jobs_of(f"flows.jobs.{name}"):
            if job.question and job.fn.__name__ == name:
                return flow(name=job.name, flow_run_name=job.run_name)(job.work)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
