"""The commands `kgcal ui`, `kgcal up`, `kgcal down` and `kgcal status`."""

from typing import Annotated

import typer

from flows.cli.local import add_local_commands
from flows.cli.terminal import guarded, port_option
from flows.local.up import MLFLOW_PORT
from tasks.tracking.ui import serve_ui


@guarded
def ui(port: Annotated[int, port_option(MLFLOW_PORT)] = MLFLOW_PORT) -> None:
    """Serve the MLflow UI with all runs until Ctrl-C."""
    serve_ui(port)


def add_services(app: typer.Typer) -> None:
    """Add `ui`, `up`, `down` and `status`."""
    app.command("ui")(ui)
    add_local_commands(app)
