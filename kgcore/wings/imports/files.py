"""Read tables of embeddings from .npy or .safetensors files, the names of their rows, and pickles in another process.

Pickles are refused, except those of PyKEEN and LibKGE: a process of its own loads them, and hands back numbers.
"""

import gzip
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgcore.data.formats.numbered import columns_of_ids
from kgcore.errors import InputError

Numbers = NDArray[Any]  # real or complex
FORMATS = ".npy or .safetensors"
SCRIPT = Path(__file__).with_name("export.py")
SECONDS = 600.0  # longest time to load a checkpoint


def read_table(path: Path) -> Numbers:
    """Return the table of a file: (rows, width), real or complex.

    A .safetensors file must contain one tensor. Raises InputError if the file cannot be read, if it is not one table of
    numbers, or if a number is not finite.
    """
    if not path.is_file():
        raise InputError(f"{path} does not exist: give a file with one row of numbers for each name ({FORMATS})")
    table = _read(path)
    if table.ndim != 2 or not table.size:
        raise InputError(f"{path} has an array of shape {table.shape}: it must be (rows, width)")
    if table.dtype.kind not in "fc":
        raise InputError(f"{path} has numbers of type {table.dtype}: they must be real (float) or complex")
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise InputError(f"{path}, row {row}: a number is not finite; every number must be")
    return table


def _read(path: Path) -> Numbers:
    """Return the only array of the file."""
    if path.suffix == ".npy":
        try:
            # a map takes no memory, and its size is compared with that of the file
            table: Numbers = np.array(np.load(path, mmap_mode="r", allow_pickle=False))
        except (ValueError, EOFError, OSError, OverflowError) as error:
            raise InputError(f"{path} cannot be read as an array of numbers in NumPy's format: {error}") from error
        return table
    if path.suffix != ".safetensors":
        raise InputError(f"{path} is not {FORMATS}: save the table with numpy.save, or as safetensors")
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path} cannot be read as safetensors: {error}") from error
    if len(tensors) != 1:
        raise InputError(
            f"{path} has {len(tensors)} tensors, {', '.join(sorted(tensors))}: it must have one, the table"
        )
    [tensor] = tensors.values()
    if tensor.is_floating_point():
        tensor = tensor.float()  # NumPy has no bfloat16
    return tensor.numpy()


def read_names(path: Path) -> list[str]:
    """Return the names of the rows, in the order of the rows.

    Each line has a name, and the first line is row 0; or each line has a row number, from 0, and a name, in either
    order, with a tab between them. A first line `id` and `label`, or the number of the names, is left out. A file that
    ends in .gz is unpacked.

    Raises InputError if the file cannot be read, if a name is empty or occurs twice, or if the numbers are not those of
    the rows.
    """
    lines = _lines(path)
    fields = [line.split("\t") for line in lines]
    start = 1 if _has_header(fields) else 0
    width = {len(row) for row in fields[start:]}
    if width == {2}:
        named = [(row, number) for number, row in enumerate(fields[start:], start=start + 1)]
        names = _numbered(path, named)
    elif width == {1}:
        names = [row[0] for row in fields[start:]]
    else:
        shown = next((n for n, row in enumerate(fields[start:], start + 1) if len(row) not in (1, 2)), start + 1)
        raise InputError(f"{path}, line {shown}: each line must have a name, or a row number, a tab and a name")
    _check(path, names)
    return names


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InputError(f"{path} does not exist: give a file with the name of each row of the table")
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        lines = data.decode("utf-8-sig").splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text in UTF-8: {error}") from error
    if not lines:
        raise InputError(f"{path} is empty: it must have the name of each row of the table")
    return lines


def _has_header(fields: Sequence[Sequence[str]]) -> bool:
    """Return whether the first line is `id` and `label` (PyKEEN), or the number of the names (OpenKE)."""
    first, rest = list(fields[0]), fields[1:]
    if sorted(first) == ["id", "label"]:
        return True
    return bool(rest) and first == [str(len(rest))] and all(len(row) == 2 for row in rest)


def _numbered(path: Path, rows: Sequence[tuple[Sequence[str], int]]) -> list[str]:
    """Return the names by their row number, which is in one of two columns."""
    columns = columns_of_ids([row for row, _ in rows])
    if not columns:
        raise InputError(
            f"{path} has lines of two fields, but neither column has the row numbers 0 to {len(rows) - 1}, each once: "
            "one column must have them, the other the names"
        )
    column = columns[0]
    by_number = {int(row[column]): row[1 - column] for row, _ in rows}
    return [by_number[number] for number in range(len(rows))]


def _check(path: Path, names: Sequence[str]) -> None:
    """Raise InputError if a name is empty or occurs twice."""
    seen: dict[str, int] = {}
    for row, name in enumerate(names):
        if not name:
            raise InputError(f"{path}: the name of row {row} is empty; each row must have a name")
        if name in seen:
            raise InputError(f"{path}: {name} is the name of rows {seen[name]} and {row}; each row must have its own")
        seen[name] = row


def check_trust(checkpoint: Path, trust: bool) -> None:
    """Raise InputError if the user does not trust a pickle, which may run any code while it is loaded."""
    if not trust:
        raise InputError(
            f"{checkpoint} is a pickle: to load it runs the code that is in it; add --trust if you trust its source"
        )


def load_apart(
    library: str, checkpoint: Path, python: str, needs: str
) -> tuple[Mapping[str, Any], Mapping[str, Numbers]]:
    """Run export.py in another process. Return the JSON and the tables that it writes.

    library  pykeen or libkge
    python  the Python interpreter of the process
    needs   what the interpreter must have, for messages

    Raises InputError if the process fails.
    """
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "tables.safetensors"
        interpreter = str(Path(python).absolute()) if os.sep in python else python  # the process has another folder
        words = [interpreter, "-I", str(SCRIPT), library, str(checkpoint.resolve()), str(output)]
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
            facts: Mapping[str, Any] = json.loads(file.metadata()["model"])
    return facts, tables
