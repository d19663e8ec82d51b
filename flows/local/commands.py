"""`kgcal up`, `kgcal down`, `kgcal status`."""

from typing import Annotated

import typer

from flows.cli.terminal import console, guarded
from flows.local import services as local


def up(
    mlflow_port: Annotated[int | None, typer.Option(help="port on 127.0.0.1 [5000]", min=1024, max=65535)] = None,
    prefect_port: Annotated[int | None, typer.Option(help="port on 127.0.0.1 [4200]", min=1024, max=65535)] = None,
) -> None:
    """Start MLflow and Prefect, a worker and the deployments on this machine: what is missing of them."""
    show_services(local.up(mlflow_port, prefect_port))


def down() -> None:
    """Cancel what the worker runs, and end what `kgcal up` started."""
    ended = local.down()
    console.print(f"ended: {', '.join(ended)}" if ended else "nothing was up")


def status() -> None:
    """Tell what `kgcal up` has started, and what the worker is at."""
    show_services(local.status())


def show_services(seen: list[local.Seen]) -> None:
    """A line each."""
    for service in seen:
        console.print(f"{service.name:<8} {service.state:<12} {service.place}", soft_wrap=True)


def add_local_commands(app: typer.Typer) -> None:
    """The three of them."""
    for function in (up, down, status):
        app.command(function.__name__)(guarded(function))
