"""`kgcal serve`."""

from typing import Annotated

import typer

from flows.cli.terminal import guarded, port_option
from tasks.jobs.calibrated_model import Ask

PORT = 8080


@guarded
def serve(
    dataset: Annotated[
        str, typer.Option(help="data set whose champion answers; if empty, that of the newest run")
    ] = "",
    model: Annotated[str, typer.Option(help="run id, latest, or model URI that answers instead")] = "",
    calibrator: Annotated[str, typer.Option(help="label of one of the calibrators of a run")] = "",
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, port_option(PORT)] = PORT,
) -> None:
    """Serve a calibrated model: a JSON API, its OpenAPI page at /docs, and a page for people at /.

    A new champion answers within ten seconds, without a lost request.
    """
    from tasks.serving.server import serve as run  # only this command loads a web framework

    run(Ask(model, dataset, calibrator), host, port)


def add_serving(app: typer.Typer) -> None:
    """Add `serve`."""
    app.command("serve")(serve)
