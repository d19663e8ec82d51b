"""Runs the web server of `kgcal serve`."""

import logging
import os

import torch
import uvicorn

from kgcore.errors import InputError
from tasks.jobs.calibrated_model import Ask
from tasks.serving.api import create_app
from tasks.serving.model import Served
from tasks.workspace.network import port_is_taken

log = logging.getLogger("kgcal")
LOCAL = "127.0.0.1"


def serve(ask: Ask, host: str, port: int) -> None:
    """Serve a calibrated model until Ctrl-C.

    Each request computes with one thread, because the server answers many requests at the same time. Raises InputError
    if there is no such model, or if the port is in use.
    """
    if port_is_taken(port):
        raise InputError(f"port {port} of 127.0.0.1 is in use: choose another port with --port")
    torch.set_num_threads(1)
    served = Served(ask)
    # The server asks the store again every few seconds. MLflow's own retries would only delay a new champion
    os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = "0"
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    served.start()
    if host != LOCAL:
        log.warning("everyone who can reach %s can ask: the server has no passwords", host)
    print(f"serving {served.current.found.uri} on http://{host}:{port}  (Ctrl-C ends it)", flush=True)
    uvicorn.run(create_app(served), host=host, port=port, log_level="warning")
