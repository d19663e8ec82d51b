"""The only package that talks to MLflow.

store.py              runs: open, find, read, write
connection.py         opens the store: its database, checks of databases;
                      requests that are complete in spite of signals, and repeated while the store is away
experiments.py        the experiments of pipelines and of decisions, checks of artifact storage
record.py             the tags of a run; names of metrics and models; MLflow's objects for what a run logs
artifacts.py          the types of artifact handles; the handle of every artifact; the files in the artifact storage
keys.py               the keys by which finished runs are re-used
registry.py           champions, challengers, and the runs that model URIs refer to
mlmodel.py, pyfunc.py the files by which MLflow loads a calibrator; the loader that MLflow calls
machine.py            MLflow's system metrics of a run
ui.py                 links to pages of the MLflow UI, and its server

MLflow takes more than a second to load: the functions that need it import it, and the modules do not.
File formats are in kgcore/storage. The stages and jobs themselves choose the artifacts that they log.
"""

import logging
import os

# These lines must run before MLflow is imported, because MLflow reads some of the variables on import.
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_LOG_UV_FILES", "false")  # a logged model has no files of the current folder
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")  # connection.py repeats requests
logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it prints tracebacks of errors that it raises
