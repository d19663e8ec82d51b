"""The commands `kgcal up`, `kgcal down` and `kgcal status`."""

from typing import Annotated

import typer

from flows.cli.terminal import console, guarded, port_option
from flows.local.down import down
from flows.local.status import status
from flows.local.up import MLFLOW_PORT, PREFECT_PORT, up

# The default is None, so that `up` can use the ports of its last start again.
MlflowPort = Annotated[int | None, port_option(MLFLOW_PORT)]
PrefectPort = Annotated[int | None, port_option(PREFECT_PORT)]


def run_up(mlflow_port: MlflowPort = None, prefect_port: PrefectPort = None) -> None:
    """Start MLflow, Prefect and a worker on this machine, and create the deployments; keep running services."""
    up(mlflow_port, prefect_port)
    run_status()


def run_down() -> None:
    """Cancel the flow runs of the worker, and stop the services that `kgcal up` has started."""
    stopped = down()
    console.print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


def run_status() -> None:
    """Show the services of `kgcal up`, and the active flow runs of the worker."""
    for line in status():
        console.print(f"{line.name:<8} {line.state:<12} {line.place}", soft_wrap=True)


def add_local_commands(app: typer.Typer) -> None:
    """Add the three commands to the command line."""
    for name, function in (("up", run_up), ("down", run_down), ("status", run_status)):
        app.command(name)(guarded(function))
