"""Run `kgcal` in processes that start with their imports done.

`python -m tests.pipeline.forks` imports the command line and everything that the command line imports later. For each
command it then reads one line of JSON, forks, and answers with the exit status. Each command is a separate process
with its own environment, folder, standard output and standard error. Only the imports are shared: that
saves seconds.
"""

import atexit
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numba

import kgcore
import tasks
from flows.cli.index import TOPICS

LOADED = (
    *(f"flows.cli.commands.{topic}" for topic in TOPICS),
    *(module.name for package in (kgcore, tasks) for module in walk_packages(package.__path__, f"{package.__name__}.")),
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "matplotlib.pyplot",
    "mlflow.pyfunc",
    "mlflow.store.tracking.sqlalchemy_store",
    "pandera.accessors.pandas_accessor",
    "pandera.backends.pandas.builtin_checks",
    "pandera.backends.pandas.container",
    "pandera.strategies.pandas_strategies",
    "pyarrow.dataset",
    "safetensors.torch",
    "sklearn.isotonic",
    "torch",
)


class Forks:
    """The client of the process that forks.

    The process starts at the first command, and imports the modules in the environment of that command.
    """

    def __init__(self, *also: str) -> None:
        """Store `also`, further modules to import before the first command."""
        self._also = also
        self._process: subprocess.Popen[str] | None = None

    def run(
        self, arguments: list[str], environment: Mapping[str, str], folder: Path, seconds: int
    ) -> "subprocess.CompletedProcess[str]":
        """Run `kgcal ARGUMENTS` in a folder. Raises TimeoutExpired after `seconds`."""
        with TemporaryDirectory() as outputs:
            out, err = Path(outputs, "out"), Path(outputs, "err")
            order = [["kgcal", *arguments], dict(environment), str(folder), str(out), str(err), seconds]
            status = self._ask(json.dumps(order), environment)
            if status == -signal.SIGALRM:
                raise subprocess.TimeoutExpired(arguments, seconds, out.read_text(), err.read_text())
            return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())

    def _ask(self, line: str, environment: Mapping[str, str]) -> int:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.pipeline.forks", *self._also],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
                env=environment,
            )
            atexit.register(self._process.kill)
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(line + "\n")
        process.stdin.flush()
        if not (status := process.stdout.readline()):
            raise RuntimeError(f"the process that forks ended with {process.wait()}: see its standard error")
        return int(status)


def read_code() -> None:
    """Read the import statements of kgcore, on which the keys of stages depend."""
    from tasks.tracking import fingerprint

    for path in fingerprint._FILES:
        if path.suffix == ".py":
            fingerprint._imports(path)


def serve() -> list[Any]:
    """Fork for each line of standard input, and answer with the exit status of the child.

    The function returns only in a child: it returns the content of the line.
    """
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            order: list[Any] = json.loads(line)
            return order
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    sys.exit()


def become(command: list[str], environment: dict[str, str], folder: str, out: str, err: str, seconds: int) -> None:
    """Replace this process's files, environment and folder by those of the command, and run the command."""
    signal.alarm(seconds)
    write = os.O_CREAT | os.O_WRONLY
    for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, out, write), (2, err, write)):
        os.dup2(os.open(path, flags), number)
    for name in GIVEN - environment.keys():
        os.environ.pop(name, None)
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = command
    from flows.cli.main import main

    end_after(main)


def end_after(main: Callable[[], object]) -> NoReturn:
    """Call a function and end the process with its exit status, as Python does, but leave the memory to the system.

    Python frees every object first. A child would copy the memory of its parent for that, which takes .3 s.
    """
    status: object = 0
    try:
        main()
    except SystemExit as ended:
        status = ended.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads that Python waits for
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    GIVEN = set(os.environ)  # before imports add variables
    gc.disable()  # imports leave no garbage
    for name in (*LOADED, *sys.argv[1:]):
        importlib.import_module(name)
    read_code()
    numba.njit(lambda number: number)(1.0)  # numba loads its types with the first function that it compiles
    for finalizer in weakref.finalize._registry.values():  # type: ignore[attr-defined]
        finalizer.atexit = False  # a child does not finalise this process's objects, which would take it .02 s
    gc.freeze()
    gc.enable()
    become(*serve())
