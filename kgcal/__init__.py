"""What other programs use of the application: the command `kgcal`, and the loader of logged models (pyfunc.py).

The folders `flows` and `tasks` are inside this one if kgcal is installed from a wheel, and beside it in a checkout.
Their names are too common for an environment that other projects share, so only the processes of kgcal find them.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

PIPELINE = ("torch", "prefect", "mlflow", "typer", "rich")  # that pip installs with the extra `pipeline` alone


def main() -> None:
    """Run the command line. Its own `flows` and `tasks` come before those of the user's project.

    Exits with a sentence if kgcal was installed without the packages that the command needs.
    """
    missing = [name for name in PIPELINE if find_spec(name) is None]
    if missing:
        sys.exit(f"The command kgcal needs {', '.join(missing)}: pip install 'kgcal[pipeline]'")
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here if (here / "flows").is_dir() else here.parent))
    from flows.cli.main import main as run

    run()
