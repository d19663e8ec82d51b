"""Create the deployments of prefect.yaml on the Prefect server of `kgcal up`."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import VariableCreate, VariableUpdate

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
    current = _sources_digest()
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


def _sources_digest() -> str:
    """Return a digest of everything that deployments are made from.

    These are the path of the checkout, prefect.yaml, the flows and their settings.
    """
    digest = hashlib.sha256(str(CHECKOUT).encode())
    sources = [CHECKOUT / "prefect.yaml", *sorted((CHECKOUT / "flows").rglob("*.py"))]
    sources += sorted((CHECKOUT / "kgcore" / "config").glob("*.py"))
    for path in sources:
        digest.update(path.read_bytes())
    return digest.hexdigest()
