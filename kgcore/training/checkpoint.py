"""Checkpoints: the state that continues an interrupted training to the same bits as an uninterrupted one."""

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
    """Tensors (tables and moments), and state that JSON can hold (the generator, the losses so far)."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write the checkpoint atomically: to a file beside `path`, which is then renamed."""
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
    """The checkpoint in the file, or None if the file does not exist or cannot be read."""
    try:
        with safe_open(str(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return Checkpoint(tensors, json.loads(file.metadata()["state"]))
    except (FileNotFoundError, SafetensorError, KeyError, ValueError):
        return None
