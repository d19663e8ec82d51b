"""Print the MLproject file, made from the commands: `python -m flows.cli.project > MLproject`."""

from flows.cli.commands import app
from flows.cli.mlproject import project_text

if __name__ == "__main__":
    print(project_text(app), end="")
