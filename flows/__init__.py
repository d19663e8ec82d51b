"""Orchestration: Prefect flows, which fix the order of the stages. Nothing is computed here, and MLflow is not called.

pipeline.py    the whole pipeline: the order of the stages
stages.py      one flow for each stage, made from the table of stages in tasks/stages/table.py
jobs/          one file for each other job: predict, recalibrate, promote, tune and so on
job.py         the decorator that gives a flow its command, deployments and entry point of MLproject; published results
flow.py        the class of flows, the decorator that makes a function a flow, names of flow runs
questions.py   the flows of questions, for deployments and servers
deployments.py makes prefect.yaml
parameters.py  the types of the fields of forms
cli/           the `kgcal` command and MLproject
local/         the services of `kgcal up`, and the recorder of flow runs

The code that a flow runs is in tasks/: stages in tasks/stages/, jobs that use many runs in tasks/jobs/.
"""

import sys
from pathlib import Path

# A worker of Prefect loads a flow by the path of its file. `tasks` is then found beside this folder, wherever that is.
if (_folder := str(Path(__file__).resolve().parents[1])) not in sys.path:
    sys.path.insert(0, _folder)
