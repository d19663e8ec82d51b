"""Print the MLproject file, made from the commands: `python -m flows.cli.project > MLproject`."""

from flows.cli.index import whole_app
from flows.cli.mlproject import project_text

if __name__ == "__main__":
    print(project_text(whole_app()), end="")
