"""Start the worker of `kgcal up`, which runs the deployments as processes of this machine."""

import os
import sys
import time

from prefect.client.orchestration import SyncPrefectClient

from flows.local.active import WORK_POOL
from flows.local.prefect_server import server_environment
from flows.local.processes import keep, setup_digest, start, wait
from tasks.workspace.resources import cores
from tasks.workspace.services import WORKER
from tasks.workspace.settings import home, tracking_uri

CONCURRENT_RUNS = 2  # flow runs of the worker at the same time; they share the cores


def start_worker(client: SyncPrefectClient, api: str) -> None:
    """Start a worker of the work pool unless one already runs, and wait until the server knows it.

    Raises InputError if the worker does not get ready in time.
    """
    setup = setup_digest(api, tracking_uri())
    if keep(WORKER, setup):
        return
    name = f"kgcal-{os.getpid()}-{int(time.time())}"
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", WORK_POOL, "--name", name]
    command += ["--limit", str(CONCURRENT_RUNS), "--install-policy", "never"]
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores() // CONCURRENT_RUNS))
    environment = server_environment() | {
        "PREFECT_API_URL": api,
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "KGCAL_HOME": str(home()),
        "OMP_NUM_THREADS": threads,
    }
    worker = start(WORKER, command, environment, setup=setup)
    wait(worker, lambda: any(known.name == name for known in client.read_workers_for_work_pool(WORK_POOL)))
