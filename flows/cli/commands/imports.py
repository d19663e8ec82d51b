"""The commands `kgcal import embeddings`, `pykeen` and `libkge`."""

from typing import Any

import typer

from flows.cli.commands.flow_command import add_flow_command, start
from flows.cli.terminal import CommandGroup
from flows.import_model import import_embeddings, import_libkge, import_pykeen


def run_import_embeddings(**arguments: Any) -> None:
    """Import tables of embeddings, and print the id of the train run."""
    print(start(import_embeddings, **arguments).run.run_id)


def run_import_pykeen(**arguments: Any) -> None:
    """Import a model of PyKEEN, and print the id of the train run."""
    print(start(import_pykeen, **arguments).run.run_id)


def run_import_libkge(**arguments: Any) -> None:
    """Import a checkpoint of LibKGE, and print the id of the train run."""
    print(start(import_libkge, **arguments).run.run_id)


def add(app: typer.Typer) -> None:
    """Add the group `import` with its commands."""
    group = typer.Typer(
        cls=CommandGroup, rich_markup_mode=None, no_args_is_help=True, help="Import a model of another library."
    )
    add_flow_command(group, import_embeddings, run_import_embeddings, title="embeddings")
    add_flow_command(group, import_pykeen, run_import_pykeen, title="pykeen")
    add_flow_command(group, import_libkge, run_import_libkge, title="libkge")
    app.add_typer(group, name="import")
