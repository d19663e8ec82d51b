"""A script that loads PyKEEN's checkpoint, a pickle, and writes its tables as safetensors. Nothing imports it.

python -I pykeen_export.py trained_model.pkl OUTPUT.safetensors

A pickle may run any code while it is loaded. Therefore a process of its own loads it, and hands back only numbers. The
tables are the embeddings as the scoring function sees them: after PyKEEN's normalisers. The metadata of the output has
the name of the interaction, and its norm.
"""

import json
import sys

import torch
from safetensors.torch import save_file

FEATURES = ("p", "power_norm")  # of interactions that are distances


def export(checkpoint: str, output: str) -> None:
    """Write the tables `entities` and `relations`, complex numbers as halves, and their metadata."""
    model = torch.load(checkpoint, map_location="cpu", weights_only=False).eval()
    interaction = getattr(model, "interaction", None)
    found: dict[str, object] = {"class": type(model).__name__, "interaction": type(interaction).__name__}
    found |= {name: getattr(interaction, name) for name in FEATURES if hasattr(interaction, name)}
    found["inverse"] = bool(getattr(model, "use_inverse_triples", False))
    tables = {}
    for name, kind in (("entities", "entity_representations"), ("relations", "relation_representations")):
        representations = list(getattr(model, kind, ()))
        found[f"{name}_tables"] = len(representations)
        if len(representations) == 1:
            with torch.inference_mode():
                table = representations[0](indices=None)
            if table.is_complex():
                table = torch.cat([table.real, table.imag], dim=-1)
            tables[name] = table.float().contiguous().clone()
    save_file(tables, output, metadata={"model": json.dumps(found)})


if __name__ == "__main__":
    export(*sys.argv[1:])
