"""The only package that talks to MLflow.

connection.py, new_database.py, places.py  open the store, create its database, check databases and artifact storage
store.py                                   runs: open, find, read, write
entries.py, files.py                       MLflow's objects for what a run logs; access to stored files
record.py                                  the tags of a run
artifacts.py                               the types of artifact handles; the handle of every artifact
series.py                                  logs the losses while a training runs
labels.py                                  the names of metrics and models that the MLflow UI shows
keys.py                                    the keys by which finished runs are re-used
registry.py                                champions, challengers, and the runs that model URIs refer to
mlmodel.py, pyfunc.py                      the files by which MLflow loads a calibrator; the loader that MLflow calls
ui.py, views.py                            the address of the MLflow UI, and links to its pages

MLflow takes more than a second to load: the functions that need it import it, and the modules do not.
File formats are in kgcore/storage. The stages and jobs themselves choose the artifacts that they log.
"""

import os

# These lines must run before MLflow is imported, because MLflow reads some of the variables on import.
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_LOG_UV_FILES", "false")  # a logged model has no files of the current folder
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # reports a dead server after seconds, not minutes
