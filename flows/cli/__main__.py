"""`python -m flows.cli` is `kgcal`."""

from flows.cli.main import main

if __name__ == "__main__":
    main()
