"""Orchestration: Prefect flows that say which stage follows which. No mathematics and no MLflow live here.

pipeline.py    the whole pipeline: the order of the stages
stages.py      one flow for each stage, made from the table of stages in tasks/stages/table.py
recalibrate.py, promote.py, watch.py, tune.py, ensemble.py, reproduce.py    one flow each
deployment/    what makes flows into deployments. deployment/deployments.py lists them and makes prefect.yaml
cli/           the `kgcal` command and MLproject
local/         the services of `kgcal up`

What a flow runs is in tasks/: a stage in tasks/stages/, a job over many runs in tasks/jobs/.
"""
