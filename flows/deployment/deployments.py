"""The list of deployments, and prefect.yaml made from it: one deployment for each job and each stage.

`make generated` writes prefect.yaml anew. The stages come from tasks/stages/table.py.
"""

from dataclasses import dataclass

from tasks.stages.table import STAGES

HEAD = """\
# Written by `make generated` from flows/deployment/deployments.py. `kgcal up` creates these deployments and starts a
# worker for them. There is no `pull` step: a run starts in the folder from which it was deployed.
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


@dataclass(frozen=True)
class Deployment:
    """A flow that a Prefect server can start.

    name         its name in `prefect deployment run FLOW/NAME`
    entrypoint   FILE:FLOW
    description  one sentence for the UI
    cron         its schedule in UTC, with at most one run at a time; None = no schedule
    """

    name: str
    entrypoint: str
    description: str
    cron: str | None = None

    def yaml(self) -> str:
        """Return the entry of this deployment in prefect.yaml."""
        lines = [f"name: {self.name}", f"entrypoint: {self.entrypoint}", f"description: {self.description}"]
        if self.cron is None:
            lines.append("schedules: []")
        else:
            lines += ["schedules:", f'  - cron: "{self.cron}"', "    timezone: UTC", "    active: true"]
            lines += ["concurrency_limit:", "  limit: 1", "  collision_strategy: CANCEL_NEW"]
        lines.append("work_pool: *local")
        return "  - " + "\n    ".join(lines) + "\n"


JOBS = (
    Deployment("pipeline", "flows/pipeline.py:pipeline", "Turn a data set into calibrated probabilities and a report."),
    Deployment(
        "nightly",
        "flows/pipeline.py:pipeline",
        "Run the pipeline every night; stages whose inputs have not changed are re-used.",
        cron="17 3 * * *",
    ),
    Deployment(
        "recalibrate",
        "flows/recalibrate.py:recalibrate",
        "Every week, calibrate a trained model again, with new labels, to candidates, or for a new base rate.",
        cron="43 4 * * 1",
    ),
    Deployment(
        "predict",
        "flows/predict.py:predict",
        "Give candidate triples a score, a probability with an interval, and a decision.",
    ),
    Deployment(
        "base-rate",
        "flows/base_rate.py:base_rate",
        "Estimate which share of candidates is true, from their scores, from labels of a random sample, or both.",
    ),
    Deployment(
        "explain",
        "flows/explain.py:explain",
        "Explain the probability of a triple by calibration data, alternatives and near known facts.",
    ),
    Deployment(
        "audit",
        "flows/audit.py:audit",
        "List the training facts that are probably wrong, or draw facts to label and estimate how many are wrong.",
    ),
    Deployment(
        "calibrate-scores",
        "flows/calibrate_scores.py:calibrate_scores",
        "Turn a file of labelled scores of any scorer into calibrators, and give other rows probabilities.",
    ),
    Deployment(
        "import-embeddings",
        "flows/import_model.py:import_embeddings",
        "Import a model of another library from tables of embeddings; it becomes a train run.",
    ),
    Deployment(
        "import-pykeen",
        "flows/import_model.py:import_pykeen",
        "Import a model that PyKEEN's pipeline has saved; it becomes a train run.",
    ),
    Deployment(
        "import-libkge",
        "flows/import_model.py:import_libkge",
        "Import a checkpoint of LibKGE; it becomes a train run.",
    ),
    Deployment(
        "discover",
        "flows/discover.py:discover",
        "List the most probable missing facts, with a controlled share of false ones, or an answer set of a query.",
    ),
    Deployment(
        "promote",
        "flows/promote.py:promote",
        "Compare the best calibrated model of each data set with the champion every day.",
        cron="7 5 * * *",
    ),
    Deployment(
        "watch",
        "flows/watch.py:watch",
        "Check a champion on newly labelled triples; warn of drift, or recalibrate. Add a schedule for your file.",
    ),
    Deployment(
        "tune",
        "flows/tune.py:tune",
        "Search for the best training settings; to resume a search, give the same settings again.",
    ),
    Deployment(
        "ensemble",
        "flows/ensemble.py:ensemble",
        "Pool calibrated models, and compare the ensembles with their members.",
    ),
    Deployment(
        "reproduce",
        "flows/reproduce.py:reproduce",
        "Compare our results with the paper's tables; run the pipelines that are missing.",
    ),
)
DEPLOYMENTS = (
    *JOBS,
    *(Deployment(f"stage-{stage.name}", f"flows/stages.py:{stage.name}", stage.summary) for stage in STAGES),
)


def prefect_yaml() -> str:
    """Return the text of prefect.yaml."""
    return HEAD + "".join(deployment.yaml() for deployment in DEPLOYMENTS)


if __name__ == "__main__":
    print(prefect_yaml(), end="")
