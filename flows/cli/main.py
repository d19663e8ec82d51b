"""The entry point of the command line."""

from flows.cli.index import lazy_app


def main() -> None:
    """Run `kgcal`."""
    lazy_app()()


if __name__ == "__main__":
    main()
