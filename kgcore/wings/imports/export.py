"""A script that loads a checkpoint of PyKEEN or LibKGE, a pickle, and writes its tables as safetensors.

python -I export.py pykeen|libkge CHECKPOINT OUTPUT.safetensors

A pickle may run any code while it is loaded. Therefore a separate process loads it, and writes only numbers. PyKEEN's
tables are the embeddings as the scoring function sees them: after its normalisers. The metadata `model` of the output
describes the model as JSON. kgcore/wings/imports/libraries.py uses the function `libkge`, too, which loads no file.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

import torch

FEATURES = ("p", "power_norm")  # of PyKEEN's interactions that are distances
NORMS = {"transe": 2.0, "rotate": 1.0}  # the default l_norm of LibKGE
WEIGHT = "embedder._embeddings.weight"
KEYS = {"entities": f"_entity_{WEIGHT}", "relations": f"_relation_{WEIGHT}"}


class LibKGESettings:
    """The attributes of LibKGE's settings, without its code."""

    options: Mapping[str, Any]


def pykeen(model: Any) -> tuple[Mapping[str, Any], dict[str, torch.Tensor]]:
    """Return what a model is, and the tables `entities` and `relations`, complex numbers as halves."""
    interaction = getattr(model.eval(), "interaction", None)
    facts: dict[str, object] = {"class": type(model).__name__, "interaction": type(interaction).__name__}
    facts |= {name: getattr(interaction, name) for name in FEATURES if hasattr(interaction, name)}
    facts["inverse"] = bool(getattr(model, "use_inverse_triples", False))
    tables = {}
    for name, kind in (("entities", "entity_representations"), ("relations", "relation_representations")):
        representations = list(getattr(model, kind, ()))
        facts[f"{name}_tables"] = len(representations)
        if len(representations) == 1:
            with torch.inference_mode():
                table = representations[0](indices=None)
            tables[name] = torch.cat([table.real, table.imag], dim=-1) if table.is_complex() else table
    return facts, tables


def libkge(loaded: Any) -> tuple[Mapping[str, Any], dict[str, torch.Tensor]]:
    """Return the model, its norm, and the tables that there are, of a checkpoint that has been loaded.

    Raises ValueError if it is not a checkpoint of LibKGE.
    """
    try:
        options, state = loaded["config"].options, loaded["model"][0]
        name = options["model"]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("it must have the entries `model` and `config`, with the name of the model") from error
    facts: dict[str, object] = {"model": name}
    if name in NORMS:
        facts["norm"] = float(options.get(name, {}).get("l_norm", NORMS[name]))
    return facts, {kind: state[key].detach() for kind, key in KEYS.items() if key in state}


def export(library: str, checkpoint: str, output: str) -> None:
    """Write the tables of a checkpoint, and what it is as JSON."""
    from safetensors.torch import save_file

    read = pykeen if library == "pykeen" else libkge
    facts, tables = read(torch.load(checkpoint, map_location="cpu", weights_only=False))
    numbers = {kind: table.float().contiguous().clone() for kind, table in tables.items()}
    save_file(numbers, output, metadata={"model": json.dumps(facts)})


if __name__ == "__main__":
    export(*sys.argv[1:])
