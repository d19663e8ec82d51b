"""Runs the web server of `kgcal serve`."""

import logging
import os

import torch
import uvicorn

from kgcore.errors import InputError
from tasks.jobs.calibrated_model import Ask, is_of_scores
from tasks.jobs.population import Stated
from tasks.serving.api import create_app
from tasks.serving.model import Served, ServedScores
from tasks.workspace.network import port_is_taken

log = logging.getLogger("kgcal")
LOCAL = "127.0.0.1"


def serve(ask: Ask, host: str, port: int, completeness: str = "") -> None:
    """Serve a calibrated model, or a calibrator of scores, until Ctrl-C.

    completeness  of the graph, for the requests that state none: see `Stated`; '': that of the model's run, if any

    Each request computes with one thread, because the server answers many requests at the same time. Raises InputError
    as `served_by` does, and if the port is in use.
    """
    if port_is_taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is in use: choose another port with --port")
    torch.set_num_threads(1)
    served = served_by(ask, completeness)
    # The server asks the store again every few seconds. MLflow's own retries would only delay a new champion
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    served.start()
    if host != LOCAL:
        log.warning("everyone who can reach %s can ask: the server has no passwords", host)
    print(f"serving {served.current.located.uri} on http://{host}:{port}  (Ctrl-C ends it)", flush=True)
    uvicorn.run(create_app(served), host=host, port=port, log_level="warning")


def served_by(ask: Ask, completeness: str = "") -> Served | ServedScores:
    """Load the model that is to be served: that of a data set, or the calibrator of a scorer.

    Raises InputError if both a data set and a scorer are named, or if there is no such model.
    """
    if ask.dataset and ask.scorer:
        raise InputError(
            f"--dataset {ask.dataset} and --scorer {ask.scorer} are given: a server has one model, give one"
        )
    return ServedScores(ask) if is_of_scores(ask) else Served(ask, Stated(completeness))
