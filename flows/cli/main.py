"""The entry point of the command line. It imports only what the command needs."""

from flows.cli.index import indexed_group


def main() -> None:
    """Run `kgcal`."""
    indexed_group()()


if __name__ == "__main__":
    main()
