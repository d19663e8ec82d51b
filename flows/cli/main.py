"""The entry point of the command line."""

import gc

from flows.cli.index import lazy_app


def main() -> None:
    """Run `kgcal`."""
    gc.disable()  # imports leave no garbage; without the collector they take two thirds of the time
    lazy_app()()


if __name__ == "__main__":
    main()
