"""Orchestration: Prefect flows, which fix the order of the stages. Nothing is computed here, and MLflow is not called.

pipeline.py    the whole pipeline: the order of the stages
best_few.py    the option --ensemble of the pipeline
stages.py      one flow for each stage, made from the table of stages in tasks/stages/table.py
recalibrate.py, predict.py, base_rate.py, discover.py, promote.py, watch.py, tune.py, ensemble.py, reproduce.py
               one flow each
deployment/    turns flows into Prefect deployments. deployment/deployments.py lists them and makes prefect.yaml
flow.py        the decorator that makes a function a flow; prefect_flow.py has its class
cli/           the `kgcal` command and MLproject
local/         the services of `kgcal up`, and the recorder of flow runs

The code that a flow runs is in tasks/: stages in tasks/stages/, jobs that use many runs in tasks/jobs/.
"""
