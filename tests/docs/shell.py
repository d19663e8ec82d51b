"""Runs blocks of commands with bash, in which `kgcal` is a process forked from one that has its imports behind it.

`kgcal` on the PATH is a small script. It sends its arguments, folder and environment to a socket of the test, which runs
them by tests/pipeline/forks.py and sends back what they printed.
"""

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.pages import CHECKOUT, Block
from tests.pipeline.conftest import UNSET
from tests.pipeline.forks import Forks

FORKS = Forks("tests.docs.stand_ins")
SECONDS = 120
SHORTER = {"tune": ["--trials", "3", "--most-epochs", "4"]}  # the last of two equal options counts
CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as line:
    line.connect({socket!r})
    line.sendall(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n")
    status, out, err = json.loads(line.makefile().readline())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(status)
"""


class Answer(socketserver.StreamRequestHandler):
    """One `kgcal` command."""

    def handle(self) -> None:
        arguments, folder, environment = json.loads(self.rfile.readline())
        # sizes that a reader would wait for
        done = FORKS.run([*arguments, *SHORTER.get(arguments[0], [])], environment, Path(folder), SECONDS)
        self.wfile.write(json.dumps([done.returncode, done.stdout, done.stderr]).encode() + b"\n")


class Shell:
    """A scratch folder with a home in it, where a reader types the blocks of a page."""

    def __init__(self, folder: Path, home: Path, programs: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if name not in UNSET}
        self.environment = kept | {
            "KGCAL_HOME": str(home),
            "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(CHECKOUT),
            "COLUMNS": "100",
            "OMP_NUM_THREADS": "1",
        }
        folder.mkdir(parents=True)
        home.mkdir(parents=True, exist_ok=True)
        (folder / ".kgcal").symlink_to(home)
        (folder / "docs" / "images").mkdir(parents=True)
        (folder / "docs" / "scripts").symlink_to(CHECKOUT / "docs" / "scripts")

    def run(self, blocks: list[Block]) -> str:
        """Type the blocks into one shell and return what they print. Raises AssertionError at the first failure."""
        echo = "\n".join(f"echo '== {block.place}' >&2\n{block.text}" for block in blocks)
        done = subprocess.run(
            ["bash", "-e", "-u", "-o", "pipefail", "-c", echo],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS * 2,
        )
        last = done.stderr.rpartition("== ")[2]
        assert done.returncode == 0, f"{last}\n{done.stdout[-2000:]}"
        return done.stdout


@contextmanager
def served(folder: Path) -> Iterator[Path]:
    """A folder to put on the PATH: its `kgcal` runs as long as the block does."""
    programs, place = folder / "bin", folder / "kgcal.socket"
    programs.mkdir(parents=True)
    client = programs / "kgcal"
    client.write_text(CLIENT.format(python=sys.executable, socket=str(place)))
    client.chmod(0o755)
    with socketserver.UnixStreamServer(str(place), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield programs
        finally:
            server.shutdown()
