"""Run blocks of commands with bash. In them, `kgcal` is forked from a process that has already done its imports.

`kgcal` on the PATH is a small script. It sends its arguments, folder and environment to a socket of the test. The test
runs the command with tests/pipeline/forks.py and sends back its output.
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

from kgcore.data.datasets.family import write_genealogy
from tests.docs.pages import CHECKOUT, Block
from tests.pipeline.forks import UNSET, Forks

PEOPLE = 200
FORKS = Forks("tests.docs.stand_ins")
SECONDS = 120
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


def shorter(arguments: list[str]) -> list[str]:
    """Return options to add to a command so that it runs faster. If an option occurs twice, its last value counts."""
    if "--help" in arguments:
        return []
    if arguments[0] == "tune":
        return ["--trials", "3", "--most-epochs", "4"]
    if arguments[0] == "audit":
        return ["--epochs", "15", "--folds", "2"]
    if arguments[0] != "run":
        return []
    epochs = [] if "--epochs" in arguments else ["--epochs", "15" if "best" in arguments else "40"]
    return [*epochs, "--bootstrap-replicates", "50"]


def run_kgcal(arguments: list[str], environment: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run `kgcal ARGUMENTS` in a fork, or in a new process if the environment has Prefect settings.

    Prefect reads its settings when it is imported, so a fork would not see them.
    """
    if not any(name.startswith("PREFECT") for name in environment):
        return FORKS.run(arguments, environment, folder, SECONDS)
    return subprocess.run(
        [sys.executable, "-m", "kgcal", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        check=False,
        timeout=SECONDS,
    )


class Answer(socketserver.StreamRequestHandler):
    """A handler that runs one `kgcal` command and sends back its output."""

    def handle(self) -> None:
        arguments, folder, environment = json.loads(self.rfile.readline())
        done = run_kgcal([*arguments, *shorter(arguments)], environment, Path(folder))
        self.wfile.write(json.dumps([done.returncode, done.stdout, done.stderr]).encode() + b"\n")


class Shell:
    """A scratch folder with a home in it, in which the blocks of a page run."""

    def __init__(self, folder: Path, home: Path, programs: Path) -> None:
        self.folder = folder
        kept = {name: value for name, value in os.environ.items() if name not in UNSET}
        self.environment = kept | {
            "KGCAL_HOME": str(home),
            "PATH": os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(CHECKOUT),
            "COLUMNS": "100",
            "OMP_NUM_THREADS": "1",
            "KGCAL_PREFECT": "off",  # each page has a home, in which Prefect would have to start
        }
        folder.mkdir(parents=True)
        home.mkdir(parents=True, exist_ok=True)
        (folder / ".kgcal").symlink_to(home)
        (folder / "docs" / "images").mkdir(parents=True)
        (folder / "docs" / "scripts").symlink_to(CHECKOUT / "docs" / "scripts")
        for name in ("MLproject", "python_env.yaml"):
            (folder / name).symlink_to(CHECKOUT / name)
        write_example(folder / "mine", folder / "new.tsv")

    def run(self, blocks: list[Block]) -> str:
        """Type the blocks into one shell and return what they print. Raises AssertionError at the first failure."""
        echo = "\n".join(f"echo '== {block.place}' >&2\n{typed(block)}" for block in blocks)
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


def typed(block: Block) -> str:
    """Return the block as a user types it into a shell."""
    return f"python - <<'END'\n{block.text}END\n" if block.language == "python" else block.text


def write_example(folder: Path, labels: Path) -> None:
    """Write a labelled data set of the user, and a file of labelled triples that this data set does not contain."""
    folder.mkdir()
    write_genealogy(folder, PEOPLE, seed=1)
    rows = (folder / "test.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "test.txt").write_text("".join(rows[::2]), encoding="utf-8")
    labels.write_text("".join(rows[1::2]), encoding="utf-8")


@contextmanager
def served(folder: Path) -> Iterator[Path]:
    """Yield a folder for the PATH. Its `kgcal` works until the `with` block ends."""
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
