"""A script that loads a checkpoint of LibKGE, a pickle, and writes its tables as safetensors.

python -I libkge_export.py checkpoint.pt OUTPUT.safetensors

A pickle may run any code while it is loaded. Therefore a process of its own loads it, and hands back only numbers. The
functions below load nothing: kgcore/imports/libkge.py uses them, too.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import torch

NORMS = {"transe": 2.0, "rotate": 1.0}  # the default l_norm of LibKGE
WEIGHT = "embedder._embeddings.weight"
KEYS = {"entities": f"_entity_{WEIGHT}", "relations": f"_relation_{WEIGHT}"}


class Settings:
    """The attributes of LibKGE's settings, without its code."""

    options: Mapping[str, Any]


def contents(loaded: Any) -> tuple[Mapping[str, Any], dict[str, torch.Tensor]]:
    """Return the model, its norm, and the tables that there are, of a checkpoint that has been loaded.

    Raises ValueError if it is not a checkpoint of LibKGE.
    """
    try:
        options, state = loaded["config"].options, loaded["model"][0]
        name = options["model"]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it must have the entries `model` and `config`, with the name of the model") from error
    found: dict[str, object] = {"model": name}
    if name in NORMS:
        found["norm"] = float(options.get(name, {}).get("l_norm", NORMS[name]))
    return found, {kind: state[key].detach().float() for kind, key in KEYS.items() if key in state}


def export(checkpoint: str, output: str) -> None:
    """Write the tables of a checkpoint, and what it is as JSON."""
    from safetensors.torch import save_file

    found, tables = contents(torch.load(checkpoint, map_location="cpu", weights_only=False))
    save_file(
        {kind: table.contiguous().clone() for kind, table in tables.items()},
        output,
        metadata={"model": json.dumps(found)},
    )


if __name__ == "__main__":
    export(*sys.argv[1:])
