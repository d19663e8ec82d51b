"""The entry point of the command line."""

import gc

from flows.cli.index import lazy_app

# Python's 700 would have it look through all objects of the libraries hundreds of times, for a tenth of a run's time
ALLOCATIONS = 10_000


def main() -> None:
    """Run `kgcal`."""
    gc.set_threshold(ALLOCATIONS, 10, 10)
    lazy_app()()


if __name__ == "__main__":
    main()
