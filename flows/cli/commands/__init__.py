"""All commands of `kgcal`, one module per topic. Importing this package loads no command.

`add_topic` loads the commands of one topic. `app` is the whole command line, built when it is first used.
"""

from functools import cache
from importlib import import_module

import typer

from flows.cli.terminal import new_app

# Modules of this package, in the order of `kgcal --help`. The function add_TOPIC of a module adds its commands.
TOPICS = (
    "pipelines",
    "predictions",
    "serving",
    "stages",
    "imports",
    "upkeep",
    "searches",
    "reproduction",
    "overviews",
    "services",
    "status",
    "entry_point",
)
app: typer.Typer  # see __getattr__


def add_topic(app: typer.Typer, topic: str) -> None:
    """Import the module of a topic, and add its commands to the command line."""
    getattr(import_module(f"{__name__}.{topic}"), f"add_{topic}")(app)


@cache
def whole_app() -> typer.Typer:
    """Return the command line with all commands. The first call imports all their modules, which takes seconds."""
    whole = new_app()
    for topic in TOPICS:
        add_topic(whole, topic)
    return whole


def __getattr__(name: str) -> typer.Typer:
    """Return `app`. Python calls this function for a name that the module does not have."""
    if name == "app":
        return whole_app()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
