"""The commands `kgcal ui`, `kgcal up` and `kgcal down`."""

from typing import Annotated

import typer

from flows.cli.commands.status import run_status
from flows.cli.terminal import console, guarded, port_option
from flows.local.down import down
from flows.local.up import MLFLOW_PORT, PREFECT_PORT, up
from tasks.tracking.ui import serve_ui

# The default is None, so that `up` can use the ports of its last start again.
MlflowPort = Annotated[int | None, port_option(MLFLOW_PORT)]
PrefectPort = Annotated[int | None, port_option(PREFECT_PORT)]


@guarded
def ui(port: Annotated[int, port_option(MLFLOW_PORT)] = MLFLOW_PORT) -> None:
    """Serve the MLflow UI with all runs until Ctrl-C."""
    serve_ui(port)


def run_up(mlflow_port: MlflowPort = None, prefect_port: PrefectPort = None) -> None:
    """Start MLflow, Prefect and a worker on this machine, and create the deployments; keep running services."""
    up(mlflow_port, prefect_port)
    run_status()


def run_down() -> None:
    """Cancel the flow runs of the worker, and stop the services that `kgcal up` has started."""
    stopped = down()
    console.print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


def add(app: typer.Typer) -> None:
    """Add `ui`, `up` and `down`."""
    app.command("ui")(ui)
    app.command("up")(guarded(run_up))
    app.command("down")(guarded(run_down))
