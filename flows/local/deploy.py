"""Create the deployments of prefect.yaml on the Prefect server of `kgcal up`."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate

from flows.job import all_jobs
from flows.local.prefect_server import server_environment
from kgcore.errors import InputError

CHECKOUT = Path(__file__).resolve().parents[2]
VARIABLE = "kgcal_deployed"  # a variable on the server: the digest of the last deployed sources
DEPLOY_SECONDS = 180


def deploy(client: SyncPrefectClient, api: str) -> None:
    """Create the deployments of prefect.yaml, or update them if their sources have changed.

    If the sources have not changed, the deployments stay as they are, because a user may have edited schedules in the
    dashboard. Raises InputError if `prefect deploy` fails.
    """
    current = sources_digest()
    known = client.read_variable_by_name(VARIABLE)
    if known is not None and known.value == current:
        return
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    environment = os.environ | server_environment() | {"PREFECT_API_URL": api}
    try:
        subprocess.run(  # noqa: S603
            command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=True, timeout=DEPLOY_SECONDS
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"`prefect deploy --all` did not end within {DEPLOY_SECONDS} seconds") from None
    except subprocess.CalledProcessError as error:
        lines = (error.stderr.strip() or error.stdout.strip() or "no output").splitlines()
        raise InputError(f"the deployments of prefect.yaml cannot be created: {lines[-1].strip()}") from None
    if known is None:
        client.create_variable(VariableCreate(name=VARIABLE, value=current))
    else:
        client.update_variable(VariableUpdate(name=VARIABLE, value=current))


def sources_digest() -> str:
    """Return a digest of everything that the server stores about deployments.

    These are the path of the checkout, prefect.yaml, and the form of each flow: its parameters with descriptions,
    ranges and choices. A new model or corruption strategy is a new choice, so it changes the digest.
    """
    digest = hashlib.sha256(str(CHECKOUT).encode())
    digest.update((CHECKOUT / "prefect.yaml").read_bytes())
    for job in all_jobs():
        digest.update(job.flow.parameters.model_dump_json().encode())
    return digest.hexdigest()
