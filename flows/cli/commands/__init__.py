"""All commands of `kgcal`, one module per topic. `app` is the whole command line."""

import typer

from flows.cli.commands.entry_point import add_entry_point
from flows.cli.commands.imports import add_imports
from flows.cli.commands.overviews import add_overviews
from flows.cli.commands.pipelines import add_pipelines
from flows.cli.commands.predictions import add_predictions
from flows.cli.commands.reproduction import add_reproduction
from flows.cli.commands.searches import add_searches
from flows.cli.commands.services import add_services
from flows.cli.commands.serving import add_serving
from flows.cli.commands.stages import add_stages
from flows.cli.commands.upkeep import add_upkeep
from flows.cli.terminal import new_app

app: typer.Typer = new_app()
for add in (
    add_pipelines,
    add_predictions,
    add_serving,
    add_stages,
    add_imports,
    add_upkeep,
    add_searches,
    add_reproduction,
    add_overviews,
    add_services,
    add_entry_point,
):
    add(app)
