"""Checkpoints, from which an interrupted training continues. On a CPU, the result is the same to the bit."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two epochs.

    tensors  the tables and their Adam moments, by name
    state    values that JSON can hold: the state of the random generator, and the loss of each epoch
    """

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint to a partial file in the same folder, and then rename that file to `path`.

    An interruption therefore never leaves an incomplete checkpoint at `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    data = save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.tensors.items()},
        metadata={"state": json.dumps(checkpoint.state)},
    )
    with partial.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def read_checkpoint(path: Path) -> Checkpoint | None:
    """Return the checkpoint in the file, or None if the file does not exist or is not a valid checkpoint."""
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return Checkpoint(tensors, json.loads(file.metadata()["state"]))
    except (FileNotFoundError, SafetensorError, KeyError, ValueError):
        return None
