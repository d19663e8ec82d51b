"""Read a folder that DGL-KE's `dglke_train` has written (`--save_path`): tables in NumPy's format, and config.json.

DGL-KE's scoring functions, for a head h, a relation r and a tail t, with the margin g of `--gamma`:

    TransE_l1          g - ||h + r - t||_1
    TransE, TransE_l2  g - ||h + r - t||_2
    DistMult           sum_i h_i r_i t_i
    ComplEx            Re(sum_i h_i r_i conj(t_i)): rows have the real parts, then the imaginary parts
    RotatE             g - sum_i |h_i e^(i p_i) - t_i| with the phases p = pi r / e, e = (g + 2) / hidden_dim

The margin is a constant. It is left out: it changes no probability and no rank.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kgcore.errors import InputError
from kgcore.imports.embeddings import Foreign, Table
from kgcore.imports.names import find_names, read_names
from kgcore.imports.tables import read_table

CONFIG = "config.json"
NAMES = {"entities": ("entities.tsv", "entities.dict"), "relations": ("relations.tsv", "relations.dict")}
EPSILON = 2.0  # of DGL-KE: its initial RotatE embeddings are in [-e, e] with e = (gamma + EPSILON) / hidden_dim
MODELS_OF: Mapping[str, tuple[str, dict[str, float | bool]]] = {
    "TransE": ("transe", {"norm": 2.0}),
    "TransE_l1": ("transe", {"norm": 1.0}),
    "TransE_l2": ("transe", {"norm": 2.0}),
    "DistMult": ("distmult", {}),
    "ComplEx": ("complex", {}),
    "RotatE": ("rotate", {}),
}


@dataclass(frozen=True)
class _Settings:
    """The settings of a training that its scores depend on."""

    name: str
    gamma: float
    hidden_dim: int


def read_dglke(folder: Path, entities: Path | None, relations: Path | None) -> Foreign:
    """Return the model of the folder.

    entities, relations  files of names; None: entities.tsv and relations.tsv, or .dict, in the folder

    Raises InputError if a file is missing or cannot be read, or if kgcal does not have the model.
    """
    settings = _settings(folder / CONFIG)
    if settings.name not in MODELS_OF:
        raise InputError(
            f"{folder / CONFIG} is of the model {settings.name}: kgcal can import {', '.join(MODELS_OF)} of DGL-KE"
        )
    tables = []
    for kind, word, given in (("entities", "entity", entities), ("relations", "relation", relations)):
        place = _only(folder, f"*_{settings.name}_{word}.npy")
        names = find_names(folder, NAMES[kind], given, f"--{kind}")
        tables.append(Table(read_table(place), read_names(names), f"{place} (named in {names})"))
    model, options = MODELS_OF[settings.name]
    entity_table, relation_table = tables
    if model == "rotate":
        scale = math.pi * settings.hidden_dim / (settings.gamma + EPSILON)
        phases = relation_table.numbers.astype("float64") * scale
        relation_table = Table(phases, relation_table.names, relation_table.place)
    return Foreign(model, dict(options), "halves", entity_table, relation_table)


def _settings(path: Path) -> _Settings:
    if not path.is_file():
        raise InputError(f"{path.parent} has no {CONFIG}: give a folder that dglke_train has written (--save_path)")
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        settings = _Settings(str(found["model_name"]), float(found["gamma"]), int(found["hidden_dim"]))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path} cannot be read as the settings of a DGL-KE model: {error}") from error
    except KeyError as error:
        raise InputError(f"{path} has no {error}: DGL-KE writes model_name, gamma and hidden_dim") from error
    if settings.gamma + EPSILON <= 0 or settings.hidden_dim <= 0:
        raise InputError(
            f"{path} has gamma = {settings.gamma:g} and hidden_dim = {settings.hidden_dim}: gamma must be above "
            f"{-EPSILON:g}, hidden_dim above 0"
        )
    return settings


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        which = f"{len(found)}, {', '.join(path.name for path in found)}" if found else "none"
        raise InputError(f"{folder} must have one file {pattern}, and has {which}")
    return found[0]
