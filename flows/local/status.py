"""`kgcal status`: the services of `kgcal up`, and the flow runs of its worker."""

import logging
import os
from dataclasses import dataclass

from kgcore.errors import InputError, first_line, masked
from tasks.workspace.services import MLFLOW, PREFECT, RECORDER, WORKER, Service, log_file, recorded_services
from tasks.workspace.settings import mlflow_server

log = logging.getLogger("kgcal")
WORK_POOL = "local-process"
ACTIVE_STATES = ("RUNNING", "PENDING", "CANCELLING")
SECONDS = 10
MLFLOW_PORT, PREFECT_PORT = 5000, 4200  # of 127.0.0.1, if the user names no other


@dataclass(frozen=True)
class StatusLine:
    """A line of `kgcal status`: a service or a flow run.

    name   mlflow, prefect, worker, recorder or run
    state  of a service: up, dead, not started, elsewhere, does not answer; of a flow run: its state in Prefect
    place  of a service: address, process or log file; of a flow run: its name and id; '' if there is nothing to show
    """

    name: str
    state: str
    place: str


def status() -> list[StatusLine]:
    """Return a line for each service and for each active flow run of the worker.

    Raises InputError if the record of services, a named MLflow server or a live Prefect server cannot be read.
    """
    known = recorded_services()
    lines = [_service_line(name, known.get(name)) for name in (MLFLOW, PREFECT, WORKER)]
    if RECORDER in known and known[RECORDER].alive():
        lines.append(_service_line(RECORDER, known[RECORDER]))
    if api := local_api():
        runs = active_runs(api)
        lines += [StatusLine("run", run["state_name"].lower(), f"{run['name']} ({run['id']})") for run in runs]
    return lines


def local_api() -> str | None:
    """Return the API URL of the Prefect server that `kgcal up` started from this home; None if it does not answer.

    Logs a warning if the process of the server is alive but the server does not answer.
    """
    server = recorded_services().get(PREFECT)
    if server is None or not server.alive():
        return None
    if not server.ready():
        log.warning("the Prefect server of kgcal up, %s, does not answer: continuing without it", server.url)
        return None
    return f"{server.url}/api"


def _service_line(name: str, service: Service | None) -> StatusLine:
    if service is None:
        if name == MLFLOW and (uri := mlflow_server()):
            from tasks.tracking.store import open_store  # imported here because it loads MLflow, which is slow

            open_store()  # raises InputError if the server does not answer
            return StatusLine(name, "elsewhere", masked(uri))
        return StatusLine(name, "not started", "")
    if not service.alive():
        return StatusLine(name, "dead", f"log: {log_file(name)}")
    state = "up" if service.ready() else "does not answer"
    return StatusLine(name, state, service.url or f"process {service.pid}")


def active_runs(api: str, by_hand: bool = False) -> list[dict[str, str]]:
    """Return the runs of the work pool that have started and not ended: their id, name and state_name.

    Prefect's own client gives the same, but its import takes a second, and `kgcal status` needs nothing else of it.

    api      URL of the server's API. PREFECT_API_AUTH_STRING, if it is set, has the name and the password
    by_hand  whether the runs of commands are asked for, which have no deployment, instead of those of the work pool

    Raises InputError if the request fails.
    """
    import requests  # it takes a tenth of a second to load

    begun = {"state": {"type": {"any_": ACTIVE_STATES}}}
    wanted = {"flow_runs": begun, "work_pools": {"name": {"any_": [WORK_POOL]}}}
    if by_hand:
        wanted = {"flow_runs": begun | {"deployment_id": {"is_null_": True}}}
    user, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    try:
        answer = requests.post(
            f"{api.rstrip('/')}/flow_runs/filter", json=wanted, timeout=SECONDS, auth=(user, password) if user else None
        )
        answer.raise_for_status()
        return [{name: run[name] or "" for name in ("id", "name", "state_name")} for run in answer.json()]
    except (requests.RequestException, ValueError, KeyError) as error:
        raise InputError(f"a request to the Prefect server {api} failed: {first_line(error)}") from error
