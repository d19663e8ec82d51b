"""Runs the web server of `kgcal serve`."""

import logging
import os

import torch
import uvicorn

from kgcore.errors import InputError
from tasks.jobs.calibrated_model import Ask
from tasks.jobs.population import Stated
from tasks.jobs.score_model import AskScores, names_scores
from tasks.serving.api import create_app
from tasks.serving.model import Served
from tasks.serving.score_api import create_score_app
from tasks.serving.scores import ServedScores
from tasks.tracking.store import open_store
from tasks.workspace.network import port_is_taken

log = logging.getLogger("kgcal")
LOCAL = "127.0.0.1"


def serve(ask: Ask | AskScores, host: str, port: int, completeness: str = "") -> None:
    """Serve a calibrated model, or a calibrator of scores, until Ctrl-C.

    completeness  of the graph, for the requests that state none: see `Stated`; '': that of the model's run, if any

    Each request computes with one thread, because the server answers many requests at the same time. Raises InputError
    if there is no such model, or if the port is in use.
    """
    if port_is_taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is in use: choose another port with --port")
    torch.set_num_threads(1)
    served = ServedScores(ask) if isinstance(ask, AskScores) else Served(ask, Stated(completeness))
    app = create_score_app(served) if isinstance(served, ServedScores) else create_app(served)
    # The server asks the store again every few seconds. MLflow's own retries would only delay a new champion
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    served.start()
    if host != LOCAL:
        log.warning("everyone who can reach %s can ask: the server has no passwords", host)
    print(f"serving {served.current.uri} on http://{host}:{port}  (Ctrl-C ends it)", flush=True)
    uvicorn.run(app, host=host, port=port, log_level="warning")


def choose(model: str, dataset: str, scorer: str, calibrator: str) -> Ask | AskScores:
    """Return which model is to be served: that of a data set, or the calibrator of a scorer.

    Raises InputError if both a data set and a scorer are named, or if the model does not exist.
    """
    if dataset and scorer:
        raise InputError(f"--dataset {dataset} and --scorer {scorer} are given: a server has one model, give one")
    if scorer or (not dataset and names_scores(open_store(), model)):
        return AskScores(scorer, model, calibrator)
    return Ask(model, dataset, calibrator)
