"""The hidden command `kgcal project`, which the entry points of MLproject call."""

from typing import Annotated

import typer

from flows.cli.main import whole_app
from flows.cli.mlproject import translated
from flows.cli.terminal import guarded


def add(app: typer.Typer) -> None:
    """Add `project ENTRY --name value ...`, which runs the `kgcal` command of the entry point with these values."""

    def project(entry: str, values: Annotated[list[str], typer.Argument()] = []) -> None:  # noqa: B006
        """Run the `kgcal` command of an entry point of MLproject, with `--name value` for each parameter."""
        with guarded():
            arguments = translated(entry, values)
        whole_app()(arguments, prog_name="kgcal")

    # pass the values on unchanged, although they look like options of this command
    app.command("project", hidden=True, context_settings={"allow_interspersed_args": False})(project)
