"""The entry point of the command line. It imports only what the command needs.

Importing torch and MLflow takes seconds, and `kgcal status` needs neither.
"""

import gc
import sys

LIGHT = ("up", "down", "status", "--version")


def main() -> None:
    """Run `kgcal`."""
    gc.disable()  # imports leave no garbage; without the collector they take two thirds of the time
    if sys.argv[1:2] and sys.argv[1] in LIGHT:
        from flows.cli.local import add_local_commands
        from flows.cli.terminal import new_app

        app = new_app()
        add_local_commands(app)
    else:
        from flows.cli.commands import app
    gc.freeze()
    gc.enable()
    app()


if __name__ == "__main__":
    main()
