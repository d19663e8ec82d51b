"""`kgcal ui`, and `kgcal up`, `down` and `status`."""

from typing import Annotated

import typer

from flows.cli.local import add_local_commands
from flows.cli.terminal import guarded
from tasks.tracking.ui import serve_ui


@guarded
def ui(port: Annotated[int, typer.Option(help="port on 127.0.0.1", min=1024, max=65535)] = 5000) -> None:
    """Serve the MLflow UI with all runs until Ctrl-C."""
    serve_ui(port)


def add_services(app: typer.Typer) -> None:
    """Add `ui`, `up`, `down` and `status`."""
    app.command("ui")(ui)
    add_local_commands(app)
