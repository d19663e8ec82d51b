"""The only room that talks to MLflow: the store, typed run records and artifact handles, keys, the model registry, and
links into the MLflow UI.
"""

import os

# set before any module of this package imports MLflow, which reads the first one on import
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # a dead server is reported after seconds, not minutes
