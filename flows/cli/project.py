"""`python -m flows.cli.project > MLproject` writes the MLproject file from the commands."""

from flows.cli.commands import app
from flows.cli.mlproject import project_text

if __name__ == "__main__":
    print(project_text(app), end="")
