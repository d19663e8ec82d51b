"""Read a table of embeddings from a .npy or .safetensors file. Pickles are refused."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgcore.errors import InputError

Numbers = NDArray[Any]  # real or complex
FORMATS = ".npy or .safetensors"


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
            table: Numbers = np.load(path, allow_pickle=False)
        except (ValueError, EOFError, OSError) as error:
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
