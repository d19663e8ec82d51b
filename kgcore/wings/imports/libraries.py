"""Read the models of PyKEEN (a folder of `save_to_directory`) and LibKGE (a checkpoint).

Their scoring functions, for a subject s, a predicate p and an object o (pykeen/nn/modules.py, kge/model):

    TransE    -||s + p - o||_q
    DistMult  sum_i s_i p_i o_i
    ComplEx   Re(sum_i s_i p_i conj(o_i)): rows have the real parts, then the imaginary parts
    RotatE    -||s p - o||_q of a complex vector; q = 2: the root of the sum of all |.|^2. LibKGE's p are in radians
    HolE      p . (s corr o); PyKEEN only

They are those of kgcore/embed/models, with norm = q. LibKGE's q is `l_norm`: by default 2 for TransE, 1 for RotatE.
PyTorch adds 1e-6 to each coordinate of s + p - o when LibKGE scores single triples of TransE (`pairwise_distance`), and
nothing when it ranks. So does this module: nothing is added.

Both libraries write pickles. Another process loads PyKEEN's. LibKGE's has an object of the class kge.config.Config.
torch.load reads it with `weights_only=True`, as an object of `LibKGESettings`, a class without code. So no code of the
file is run. A checkpoint that has other objects is loaded only if the user trusts it, in a process of its own.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from kgcore.errors import InputError, first_line
from kgcore.wings.imports.embeddings import Foreign, Table
from kgcore.wings.imports.export import NORMS, LibKGESettings, libkge
from kgcore.wings.imports.files import check_trust, load_apart, read_names

CHECKPOINT = "trained_model.pkl"
PYKEEN_NAMES = {"entities": "entity_to_id.tsv.gz", "relations": "relation_to_id.tsv.gz"}
TRIPLES = "training_triples"
MODELS_OF = {f"{name}Interaction": name.lower() for name in ("TransE", "DistMult", "ComplEx", "RotatE", "HolE")}
WITH_NORM = ("transe", "rotate")
PYKEEN_NEEDS = (
    "PyKEEN, and safetensors: `pip install kgcal[pykeen]`, or name the Python that has trained the model with --python"
)
LIBKGE_NAMES = {"entities": "entity_ids.del", "relations": "relation_ids.del"}
LIBKGE_MODELS = ("transe", "distmult", "complex", "rotate")
LIBKGE_NEEDS = "LibKGE, and safetensors: name the Python that has trained the model with --python"


def read_pykeen(folder: Path, python: str, trust: bool) -> Foreign:
    """Return the model of the folder.

    python  the Python interpreter of the process that loads the pickle: it needs PyKEEN, its torch and safetensors
    trust   whether the user trusts the pickle, which may run any code

    Raises InputError if it is not trusted, if a file is missing or cannot be read, or if kgcal does not have the model.
    """
    checkpoint = folder / CHECKPOINT
    if not checkpoint.is_file():
        raise InputError(f"{folder} has no {CHECKPOINT}: give a folder that PyKEEN's save_to_directory has written")
    check_trust(checkpoint, trust)
    places = {kind: folder / TRIPLES / name for kind, name in PYKEEN_NAMES.items()}
    names = {kind: read_names(place) for kind, place in places.items()}
    facts, tables = load_apart("pykeen", checkpoint, python, PYKEEN_NEEDS)
    model, options = _pykeen_model(checkpoint, facts)
    entities, relations = (
        Table(tables[kind], names[kind], f"{checkpoint} ({kind}, named in {places[kind]})") for kind in PYKEEN_NAMES
    )
    return Foreign(model, options, "halves", entities, relations)


def _pykeen_model(checkpoint: Path, found: Mapping[str, Any]) -> tuple[str, dict[str, float | bool]]:
    """Return the name and the options of kgcal's scoring function. Raises InputError if kgcal lacks it."""
    model = MODELS_OF.get(found["interaction"])
    if model is None or found["entities_tables"] != 1 or found["relations_tables"] != 1:
        raise InputError(
            f"{checkpoint} is a model of the class {found['class']}: kgcal can import TransE, DistMult, ComplEx, "
            "RotatE and HolE"
        )
    if found["inverse"]:
        raise InputError(
            f"{checkpoint} was trained with inverse triples, which kgcal cannot import: train it with "
            "create_inverse_triples=False"
        )
    if model not in WITH_NORM:
        return model, {}
    norm = found.get("p", 1 if model == "transe" else 2)
    if norm not in (1, 2) or found.get("power_norm"):
        power = ", to the power of p" if found.get("power_norm") else ""
        raise InputError(f"{checkpoint} measures distances with p = {norm}{power}: kgcal has the norms 1 and 2")
    return model, {"norm": float(norm)}


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
    facts, tables = _loaded(checkpoint, python, trust)
    model, options = _libkge_model(checkpoint, facts)
    for kind in LIBKGE_NAMES:
        if kind not in tables:
            raise InputError(f"{checkpoint} has no table of the {kind}: kgcal can import plain lookup embedders")
    named_tables = (
        Table(tables[kind], row_names, f"{checkpoint} ({kind}, named in {place})")
        for kind, row_names, place in zip(LIBKGE_NAMES, names, places, strict=True)
    )
    return Foreign(model, options, "halves", *named_tables)


def _usual_names(folder: Path, kind: str) -> Path:
    place = folder / LIBKGE_NAMES[kind]
    if not place.is_file():
        raise InputError(f"{folder} has no {LIBKGE_NAMES[kind]}: name the file that has the names with --{kind} FILE")
    return place


def _loaded(checkpoint: Path, python: str, trust: bool) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what a checkpoint is, and its tables."""
    try:
        with torch.serialization.safe_globals([(LibKGESettings, "kge.config.Config")]):
            loaded = torch.load(checkpoint, map_location="cpu", weights_only=True)
        facts, tensors = libkge(loaded)
    except pickle.UnpicklingError:
        check_trust(checkpoint, trust)
        return load_apart("libkge", checkpoint, python, LIBKGE_NEEDS)
    except (ValueError, RuntimeError, EOFError, OSError) as error:
        raise InputError(f"{checkpoint} cannot be read as a checkpoint of LibKGE: {first_line(error)}") from error
    return facts, {kind: tensor.float().numpy() for kind, tensor in tensors.items()}


def _libkge_model(checkpoint: Path, found: Mapping[str, Any]) -> tuple[str, dict[str, float | bool]]:
    """Return the name and the options of kgcal's scoring function. Raises InputError if kgcal lacks it."""
    model = found["model"]
    if model == "reciprocal_relations_model":
        raise InputError(
            f"{checkpoint} has reciprocal relations: it has a score for each direction, and kgcal has one score for a "
            "triple; train the model without them"
        )
    if model not in LIBKGE_MODELS:
        raise InputError(f"{checkpoint} is of the model {model}: kgcal can import {', '.join(LIBKGE_MODELS)} of LibKGE")
    if model not in NORMS:
        return model, {}
    if found["norm"] not in (1, 2):
        raise InputError(f"{checkpoint} has {model}.l_norm = {found['norm']}: kgcal has the norms 1 and 2")
    return model, {"norm": float(found["norm"])}
