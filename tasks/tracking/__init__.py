"""The only package that talks to MLflow. store.py opens runs and logs to them, reading.py finds and loads them,
connection.py opens the store. record.py has the tags of a run and is the only file that knows their names in MLflow;
handles.py defines typed handles, and artifacts.py lists the handle of every artifact; series.py logs losses while a
training runs; keys.py and fingerprint.py compute the keys by which finished runs are re-used; registry.py has
champions and the URIs of models; ui.py and views.py link into the MLflow UI. File formats live in kgcore/storage; which
artifacts a stage logs is decided in stages/ and jobs/.
"""

import os

# set before any module of this package imports MLflow, which reads the first one on import
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # a dead server is reported after seconds, not minutes
