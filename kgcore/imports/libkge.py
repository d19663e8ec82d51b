"""Read a checkpoint of LibKGE: a pickle of tensors and settings.

LibKGE's scoring functions, for a subject s, a relation p and an object o (kge/model):

    transe    -||s + p - o||_q with q = transe.l_norm (default 2)
    distmult  sum_i s_i p_i o_i
    complex   Re(sum_i s_i p_i conj(o_i)): rows have the real parts, then the imaginary parts
    rotate    -|| |s e^(i p) - o| ||_q with q = rotate.l_norm (default 1), p in radians

They are those of kgcore/models, with norm = q. PyTorch adds 1e-6 to each coordinate of s + p - o when it scores single
triples of TransE (`pairwise_distance`), and nothing when it ranks. So does this module: nothing is added.

The pickle has an object of the class kge.config.Config. torch.load reads it with `weights_only=True`, as an object of
`Settings`, a class without code. So no code of the file is run. A checkpoint that has other objects is loaded only if
the user trusts it, in a process of its own.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kgcore.errors import InputError, first_line
from kgcore.imports.embeddings import Foreign, Table
from kgcore.imports.libkge_export import NORMS, Settings, contents
from kgcore.imports.names import read_names
from kgcore.imports.process import check_trust, load_apart

NAMES = {"entities": "entity_ids.del", "relations": "relation_ids.del"}
MODELS = ("transe", "distmult", "complex", "rotate")
SCRIPT = Path(__file__).with_name("libkge_export.py")
NEEDS = "LibKGE, and safetensors: name the Python that has trained the model with --python"


def read_libkge(checkpoint: Path, entities: Path | None, relations: Path | None, python: str, trust: bool) -> Foreign:
    """Return the model of a checkpoint.

    entities, relations  files of names; None: entity_ids.del and relation_ids.del in the folder of the checkpoint
    python               the Python interpreter of the process that loads a pickle with other objects
    trust                whether the user trusts such a pickle, which may run any code

    Raises InputError if a file is missing or cannot be read, if a pickle with other objects is not trusted, or if kgcal
    does not have the model.
    """
    if not checkpoint.is_file():
        raise InputError(f"{checkpoint} does not exist: give a checkpoint of LibKGE, such as checkpoint_best.pt")
    places = [
        given or _usual_names(checkpoint.parent, kind)
        for kind, given in (("entities", entities), ("relations", relations))
    ]
    names = [read_names(place) for place in places]
    found, tables = _loaded(checkpoint, python, trust)
    model, options = _model(checkpoint, found)
    for kind in NAMES:
        if kind not in tables:
            raise InputError(f"{checkpoint} has no table of the {kind}: kgcal can import plain lookup embedders")
    made = (
        Table(tables[kind], own, f"{checkpoint} ({kind}, named in {place})")
        for kind, own, place in zip(NAMES, names, places, strict=True)
    )
    return Foreign(model, options, "halves", *made)


def _usual_names(folder: Path, kind: str) -> Path:
    place = folder / NAMES[kind]
    if not place.is_file():
        raise InputError(f"{folder} has no {NAMES[kind]}: name the file that has the names with --{kind} FILE")
    return place


def _loaded(checkpoint: Path, python: str, trust: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what a checkpoint is, and its tables."""
    try:
        with torch.serialization.safe_globals([(Settings, "kge.config.Config")]):
            loaded = torch.load(checkpoint, map_location="cpu", weights_only=True)
        found, tensors = contents(loaded)
    except pickle.UnpicklingError:
        check_trust(checkpoint, trust)
        return load_apart(SCRIPT, checkpoint, python, NEEDS)
    except (ValueError, RuntimeError, EOFError, OSError) as error:
        raise InputError(f"{checkpoint} cannot be read as a checkpoint of LibKGE: {first_line(error)}") from error
    return found, {kind: tensor.numpy() for kind, tensor in tensors.items()}


def _model(checkpoint: Path, found: Mapping[str, Any]) -> tuple[str, dict[str, float | bool]]:
    """Return the name and the options of kgcal's scoring function. Raises InputError if there is none."""
    model = found["model"]
    if model == "reciprocal_relations_model":
        raise InputError(
            f"{checkpoint} has reciprocal relations: it has a score for each direction, and kgcal has one score for a "
            "triple; train the model without them"
        )
    if model not in MODELS:
        raise InputError(f"{checkpoint} is of the model {model}: kgcal can import {', '.join(MODELS)} of LibKGE")
    if model not in NORMS:
        return model, {}
    if found["norm"] not in (1, 2):
        raise InputError(f"{checkpoint} has {model}.l_norm = {found['norm']}: kgcal has the norms 1 and 2")
    return model, {"norm": float(found["norm"])}
