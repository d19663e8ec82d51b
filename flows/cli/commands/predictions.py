"""`kgcal predict` and `kgcal serve`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.tables.prediction import show_prediction
from flows.cli.terminal import check_target, console, guarded, port_option
from flows.predict import predict
from tasks.jobs.calibrated_model import Ask

PORT = 8080


def run_predict(**arguments: Any) -> None:
    """Predict the candidate triples, and print the answers or a summary of them."""
    if arguments["output"]:
        check_target(Path(arguments["output"]), "--output")
    show_prediction(console, start(predict, **arguments))


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


def add_predictions(app: typer.Typer) -> None:
    """Add `predict` and `serve`."""
    add_flow_command(app, predict, run_predict)
    app.command("serve")(serve)
