"""Run `kgcal` in processes that start with their imports done.

`python -m tests.pipeline.fork_server` imports the command line and everything that the command line imports later. It
forks a process for each test process that connects to it. That process reads lines of JSON, one for each command, forks
again, and answers with the exit status. Each command is a separate process with its own environment, folder, standard
output and standard error. Only the imports are shared: that saves seconds.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import Any, NoReturn, TextIO

import numba

import kgcore
import tasks
from flows.cli.main import SUMMARIES
from tests.pipeline.migrations import read_migrations_once

LOADED = (
    *SUMMARIES,
    "flows.cli.flow_command",
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
    "rich._emoji_codes",
    "safetensors.torch",
    "sklearn.isotonic",
    "sqlalchemy.dialects.sqlite",
    "torch",
)


def read_code() -> None:
    """Read the import statements of kgcore, on which the keys of stages depend."""
    from tasks.tracking import keys

    for path in keys._FILES:
        if path.suffix == ".py":
            keys._imports(path)


def serve(listener: socket.socket) -> list[Any]:
    """Fork for each connection, until standard input ends: the process that started this one holds its other end.

    The function returns only in a process that runs a command: it returns what the client has asked for.
    """
    while listener in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                return answer(connection.makefile("rw"))
    sys.exit()


def answer(lines: TextIO) -> list[Any]:
    """Fork for each line but the first, which names modules to import, and write the exit status of the child."""
    for name in json.loads(lines.readline()):
        importlib.import_module(name)
    status: object = "ready"
    while True:
        lines.write(f"{status}\n")
        lines.flush()
        if not (line := lines.readline()):
            os._exit(0)
        *order, seconds, number = json.loads(line)
        child = os.fork()
        if child == 0:
            lines.close()
            signal.setitimer(signal.ITIMER_REAL, seconds if number == signal.SIGALRM else 0)
            return order
        if number != signal.SIGALRM:
            time.sleep(seconds)
            os.kill(child, number)  # the child may have ended: it is still known until this process asks for its status
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def become(command: list[str], environment: dict[str, str], folder: str, out: str, err: str) -> None:
    """Replace this process's files, environment and folder by those of the command, and run the command."""
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
    for end in (threading._shutdown, atexit._run_exitfuncs):  # type: ignore[attr-defined]  # waits for threads
        try:
            end()
        except BaseException as error:  # Python ignores it here
            ignored = SimpleNamespace(
                exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__, err_msg=None, object=end
            )
            sys.unraisablehook(ignored)  # type: ignore[arg-type]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 1)


if __name__ == "__main__":
    GIVEN = set(os.environ)  # before imports add variables
    gc.disable()  # imports leave no garbage
    for name in LOADED:
        importlib.import_module(name)
    read_code()
    read_migrations_once()
    numba.njit(lambda number: number)(1.0)  # numba loads its types with the first function that it compiles
    for finalizer in weakref.finalize._registry.values():  # type: ignore[attr-defined]
        finalizer.atexit = False  # a child does not finalise this process's objects, which would take it .02 s
    gc.freeze()
    gc.enable()
    become(*serve(socket.socket(fileno=int(sys.argv[1]))))
