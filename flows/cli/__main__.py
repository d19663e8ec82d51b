"""Run the command line: `python -m flows.cli` does the same as `kgcal`."""

from flows.cli.main import main

if __name__ == "__main__":
    main()
