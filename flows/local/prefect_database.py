"""Create the SQLite database of the Prefect server: complete or not at all.

Some of Prefect's migrations commit before they are complete. If a server is killed during such a migration of its
first start, it leaves a database that no server can migrate.
"""

import os
import subprocess
import sys

from flows.local.prefect_server import server_environment
from kgcore.errors import InputError
from tasks.workspace.settings import home, masked, prefect_database
from tasks.workspace.sqlite_file import new_sqlite_file

MIGRATION_SECONDS = 120


def create_prefect_database() -> None:
    """Create the database in KGCAL_HOME, unless it exists or the environment names another database.

    Takes about 7 seconds. Raises InputError if Prefect cannot create it.
    """
    path = home() / "prefect" / "prefect.db"
    if prefect_database() or path.exists():
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with new_sqlite_file(path) as partial:
        command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "--yes"]
        database = {"PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{partial}"}
        try:
            subprocess.run(  # noqa: S603
                command,
                env=os.environ | server_environment() | database,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=True,
                timeout=MIGRATION_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise InputError(f"Prefect's database is not complete after {MIGRATION_SECONDS} seconds: {path}") from None
        except subprocess.CalledProcessError as error:
            lines = (error.stderr.strip() or error.stdout.strip() or "no output").splitlines()
            raise InputError(f"Prefect's database {path} cannot be created: {masked(lines[-1].strip())}") from None
