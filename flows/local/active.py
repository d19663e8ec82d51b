"""The flow runs that the worker has started and that have not ended, from the REST API of the Prefect server.

Prefect's own client gives the same, but its import takes a second, and `kgcal status` needs nothing else of it.
"""

import os
from dataclasses import dataclass

import requests

from kgcore.errors import InputError, first_line

WORK_POOL = "local-process"
ACTIVE_STATES = ("RUNNING", "PENDING", "CANCELLING")
SECONDS = 10


@dataclass(frozen=True)
class ActiveRun:
    """A flow run: its id, its name, and the name of its state, such as Running."""

    id: str
    name: str
    state: str


def active_runs(api: str) -> list[ActiveRun]:
    """Return the runs of the work pool that have started and not ended.

    api  URL of the server's API. PREFECT_API_AUTH_STRING, if it is set, has the name and the password

    Raises InputError if the request fails.
    """
    wanted = {
        "flow_runs": {"state": {"type": {"any_": ACTIVE_STATES}}},
        "work_pools": {"name": {"any_": [WORK_POOL]}},
    }
    user, _, password = os.environ.get("PREFECT_API_AUTH_STRING", "").partition(":")
    try:
        answer = requests.post(
            f"{api.rstrip('/')}/flow_runs/filter", json=wanted, timeout=SECONDS, auth=(user, password) if user else None
        )
        answer.raise_for_status()
        return [ActiveRun(run["id"], run["name"], run["state_name"] or "") for run in answer.json()]
    except (requests.RequestException, ValueError, KeyError) as error:
        raise InputError(f"a request to the Prefect server {api} failed: {first_line(error)}") from error
