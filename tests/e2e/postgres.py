"""A PostgreSQL cluster for tests in a temporary folder. The machine's own clusters are not touched."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from tests.ports import free_port

DEBIAN = Path("/usr/lib/postgresql")
PATIENCE = 30.0  # seconds until a new cluster accepts connections


@dataclass(frozen=True)
class Postgres:
    """A cluster with password authentication and the databases `mlflow` and `prefect`."""

    port: int
    password: str

    def url(self, database: str, scheme: str = "postgresql") -> str:
        return f"{scheme}://kgcal:{self.password}@127.0.0.1:{self.port}/{database}"

    def ask(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """Execute SQL and return the rows of a query; [] if the statement is no query."""
        connection = psycopg2.connect(self.url(database), connect_timeout=5)
        connection.autocommit = True
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return cursor.fetchall() if cursor.description else []
        finally:
            connection.close()


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Start a cluster with two databases; afterwards stop its process and remove its folder."""
    owner = _owner()
    # under /tmp: only root may enter pytest's folder
    folder = Path(tempfile.mkdtemp(prefix="kgcal-postgres-", dir="/tmp"))
    made = Postgres(free_port(), secrets.token_urlsafe(12))
    process: subprocess.Popen[bytes] | None = None
    try:
        if owner:
            shutil.chown(folder, owner["user"], owner["group"])
        _initialise(folder, made.password, owner)
        settings = {"listen_addresses": "127.0.0.1", "port": made.port, "unix_socket_directories": "", "fsync": "off"}
        command = [_binary("postgres"), "-D", str(folder / "data")]
        command += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env={"LC_ALL": "C"}, **owner)
        _wait(made, process, folder / "log")
        for database in ("mlflow", "prefect"):
            made.ask("postgres", f"CREATE DATABASE {database}")
        yield made
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown: it closes the connections first
            process.wait(timeout=30)
        shutil.rmtree(folder)


def _binary(name: str) -> str:
    """Return the newest version of a PostgreSQL program: Debian has a folder for each version, outside the PATH."""
    versions = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    found = str(versions[-1]) if versions else shutil.which(name)
    assert found, f"the end-to-end tests need PostgreSQL and {name} is not installed: apt-get install postgresql"
    return found


def _owner() -> dict[str, Any]:
    """Return subprocess options for a user other than root: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _initialise(folder: Path, password: str, owner: dict[str, Any]) -> None:
    secret = folder / "password"
    secret.touch(mode=0o600)
    secret.write_text(password)
    if owner:
        shutil.chown(secret, owner["user"])
    command = [_binary("initdb"), "-D", str(folder / "data"), "-U", "kgcal", "--auth", "scram-sha-256", "--no-sync"]
    command += ["--encoding", "UTF8", "--locale", "C", "--pwfile", str(secret)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, **owner)
    assert done.returncode == 0, f"initdb: {done.stderr}"


def _wait(made: Postgres, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            made.ask("postgres", "SELECT 1")
        except psycopg2.OperationalError:
            assert process.poll() is None, f"postgres ended: {log.read_text()}"
            assert time.monotonic() < end, f"postgres does not answer after {PATIENCE:.0f} seconds: {log.read_text()}"
            time.sleep(0.1)
        else:
            return
