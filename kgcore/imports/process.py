"""Load a pickle in a process of its own, which hands back tables of numbers."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgcore.errors import InputError
from kgcore.imports.tables import Numbers

SECONDS = 600.0  # longest time to load a checkpoint


def check_trust(checkpoint: Path, trust: bool) -> None:
    """Raise InputError if the user does not trust a pickle, which may run any code while it is loaded."""
    if not trust:
        raise InputError(
            f"{checkpoint} is a pickle: to load it runs the code that is in it; add --trust if you trust its source"
        )


def load_apart(
    script: Path, checkpoint: Path, python: str, needs: str
) -> tuple[Mapping[str, Any], Mapping[str, Numbers]]:
    """Run a script of this folder in another process. Return the JSON and the tables that it writes.

    script  writes a safetensors file with the tables, and JSON in the metadata `model`
    python  the Python interpreter of the process
    needs   what the interpreter must have, for messages

    Raises InputError if the process fails.
    """
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "tables.safetensors"
        interpreter = str(Path(python).absolute()) if os.sep in python else python  # the process has another folder
        words = [interpreter, "-I", str(script), str(checkpoint.resolve()), str(output)]
        try:
            done = subprocess.run(  # noqa: S603
                words, capture_output=True, text=True, timeout=SECONDS, cwd=name, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{checkpoint} cannot be loaded with {python}: {error}") from error
        if done.returncode or not output.is_file():
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise InputError(f"{checkpoint} cannot be loaded with {python}: {said}. This Python must have {needs}")
        with safe_open(output, framework="numpy") as file:
            tables = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            found: Mapping[str, Any] = json.loads(file.metadata()["model"])
    return found, tables
