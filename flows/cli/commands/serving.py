"""`kgcal serve`."""

from typing import Annotated

import typer

from flows.cli.terminal import guarded, port_option
from kgcore.config.calibrate import COMPLETENESS

PORT = 8080


@guarded
def serve(
    dataset: Annotated[
        str, typer.Option(help="data set whose champion answers; if empty, that of the newest run")
    ] = "",
    model: Annotated[str, typer.Option(help="run id, latest, or model URI that answers instead")] = "",
    scorer: Annotated[
        str, typer.Option(help="scorer of `kgcal calibrate-scores` whose champion answers, in place of a data set")
    ] = "",
    calibrator: Annotated[str, typer.Option(help="label of one of the calibrators of a run")] = "",
    completeness: Annotated[str, typer.Option(help=COMPLETENESS)] = "",
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, port_option(PORT)] = PORT,
) -> None:
    """Serve a calibrated model: a JSON API, its OpenAPI page at /docs, and a page for people at /.

    The model is that of a graph or, with --scorer, a calibrator of scores, which needs no graph.

    A new champion answers within ten seconds, without a lost request.
    """
    from tasks.jobs.calibrated_model import Ask  # only this command loads a web framework
    from tasks.serving.server import serve as run

    run(Ask(model, dataset, calibrator, scorer), host, port, completeness)


def add(app: typer.Typer) -> None:
    """Add `serve`."""
    app.command("serve")(serve)
