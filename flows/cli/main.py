"""The command line. It loads what a command needs: torch and its like take seconds, which `kgcal status` is spared."""

import gc
import sys

LIGHT = ("up", "down", "status", "--version")


def main() -> None:
    """Entry point of `kgcal`."""
    gc.disable()  # nothing that loading makes is garbage, and looking for it takes a third of the time
    if sys.argv[1:2] and sys.argv[1] in LIGHT:
        from flows.cli.terminal import new_app
        from flows.local.commands import add_local_commands

        app = new_app()
        add_local_commands(app)
    else:
        from flows.cli.commands import app
    gc.freeze()
    gc.enable()
    app()


if __name__ == "__main__":
    main()
