"""Run the command line: `python -m kgcal` does the same as `kgcal`."""

from kgcal import main

if __name__ == "__main__":
    main()
