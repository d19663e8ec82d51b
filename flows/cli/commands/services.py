"""`kgcal ui`, `up`, `down`, `status` and `serve`. `status` loads neither Prefect nor MLflow."""

from typing import Annotated, Any

import typer

from flows.cli.terminal import console, guarded, show
from flows.local.status import MLFLOW_PORT, PREFECT_PORT, status
from kgcore.config.calibrate import COMPLETENESS
from kgcore.errors import InputError

SERVE_PORT = 8080


def port_option(default: int) -> Any:
    """Return an option for a port of 127.0.0.1 that needs no special rights. Its help shows `default`."""
    return typer.Option(help=f"port on 127.0.0.1  [default: {default}]", min=1024, max=65535, show_default=False)


# The default is None, so that `up` can use the ports of its last start again.
MlflowPort = Annotated[int | None, port_option(MLFLOW_PORT)]
PrefectPort = Annotated[int | None, port_option(PREFECT_PORT)]


@guarded()
def ui(port: Annotated[int, port_option(MLFLOW_PORT)] = MLFLOW_PORT) -> None:
    """Serve the MLflow UI with all runs until Ctrl-C."""
    from tasks.tracking.ui import serve_ui

    serve_ui(port)


@guarded()
def up(mlflow_port: MlflowPort = None, prefect_port: PrefectPort = None) -> None:
    """Start MLflow, Prefect and a worker on this machine, and create the deployments; keep running services."""
    from flows.local.up import up as start_services

    start_services(mlflow_port, prefect_port)
    show_status()


@guarded()
def down() -> None:
    """Cancel the flow runs of the worker, and stop the services that `kgcal up` has started."""
    from flows.local.down import down as stop_services

    stopped = stop_services()
    console.print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")


@guarded()
def show_status() -> None:
    """Show the services of `kgcal up`, and the active flow runs of the worker."""
    for line in status():
        console.print(f"{line.name:<8} {line.state:<12} {line.place}", soft_wrap=True)


@guarded()
def schedule(
    dataset: Annotated[str, typer.Argument(help="folder, file or name of the data set", show_default=False)] = "",
    cron: Annotated[
        str, typer.Option(help="when: minute, hour, day of the month, month, day of the week, such as '0 3 * * *'")
    ] = "",
    timezone: Annotated[
        str, typer.Option(help="time zone of --cron, such as Europe/Berlin; if empty, as before, at first UTC")
    ] = "",
    base_rate: Annotated[
        float | None, typer.Option(help="base rate of the runs, as in `kgcal run`; if empty, as before")
    ] = None,
    pause: Annotated[bool, typer.Option("--pause", help="no runs until --resume; `kgcal up` keeps it so")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="end a pause")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="remove the schedule")] = False,
) -> None:
    """Run the pipeline by itself for a data set, at stated times; without one, list the schedules.

    The worker of `kgcal up` runs it, with the preset and the settings of `kgcal run`.
    """
    from flows.local.schedules import change_schedule

    actions = [name for name, given in (("pause", pause), ("resume", resume), ("remove", remove)) if given]
    if len(actions) + bool(cron) > 1:
        raise InputError("give one of --cron, --pause, --resume and --remove")
    if base_rate is not None and not cron:
        raise InputError("--base-rate is that of a new schedule: give --cron with it")
    if (actions or cron) and not dataset:
        raise InputError("name the data set, such as `kgcal schedule ./mine --cron '0 3 * * *'`")
    show(console, change_schedule(dataset, cron, timezone, base_rate, *actions))


@guarded()
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
    port: Annotated[int, port_option(SERVE_PORT)] = SERVE_PORT,
    trusted_host: Annotated[
        list[str], typer.Option(help="further name by which clients reach the server; * for any name")
    ] = [],  # noqa: B006  # typer reads it
) -> None:
    """Serve a calibrated model: a JSON API, its OpenAPI page at /docs, and a page for people at /.

    The model is that of a graph or, with --scorer, a calibrator of scores, which needs no graph.

    A new champion answers within ten seconds, without a lost request.
    """
    from tasks.jobs.find_model import Ask  # only this command loads a web framework
    from tasks.serving.api import serve as run

    run(Ask(model, dataset, calibrator, scorer), host, port, completeness, trusted_host)


def add(app: typer.Typer) -> None:
    """Add the commands."""
    for name, function in (("ui", ui), ("up", up), ("down", down), ("status", show_status), ("serve", serve)):
        app.command(name)(function)
    app.command("schedule")(schedule)
