"""Read a checkpoint folder of PyTorch-BigGraph: HDF5 files, config.json, and the names of the entities.

The score of a left entity x, a relation r and a right entity y is compare(x, operator_r(y)), where the global embedding
of their types, if there is one, has been added to x and y. kgcal has these pairs of an operator and a comparator:

    diagonal, dot          sum_i x_i r_i y_i: DistMult
    complex_diagonal, dot  Re(sum_i x_i conj(r_i y_i)): ComplEx with p = conj(r); all real parts come first
    translation, l2        -||x - (y + r)||_2: TransE with p = -r
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kgcore.errors import InputError
from kgcore.imports.embeddings import Foreign, Table
from kgcore.imports.tables import Numbers, check_table

MODELS_OF: Mapping[tuple[str, str], tuple[str, dict[str, float | bool]]] = {
    ("diagonal", "dot"): ("distmult", {}),
    ("complex_diagonal", "dot"): ("complex", {}),
    ("translation", "l2"): ("transe", {"norm": 2.0}),
}
PARAMETERS = {"diagonal": ("diagonal",), "complex_diagonal": ("real", "imag"), "translation": ("translation",)}


@dataclass(frozen=True)
class _Checkpoint:
    """The settings of a checkpoint.

    partitions  type of entities -> number of its partitions
    relations   names of the relations
    operator    name of the operator of all relations
    """

    folder: Path
    version: int
    partitions: Mapping[str, int]
    relations: Sequence[str]
    operator: str
    comparator: str

    def file(self, name: str) -> Path:
        """Return the path of a file of the checkpoint, by its name without version and ending."""
        return self.folder / f"{name}.v{self.version}.h5"


def read_biggraph(folder: Path, names: Path | None) -> Foreign:
    """Return the model of a checkpoint folder.

    names  folder with the names of the entities, entity_names_TYPE_PART.json; None: the checkpoint folder

    Raises InputError if h5py is not installed, if a file is missing or cannot be read, or if kgcal does not have the
    model.
    """
    checkpoint = _settings(folder)
    model, options = MODELS_OF[checkpoint.operator, checkpoint.comparator]
    parameters = _arrays(checkpoint.file("model"))
    tables, entity_names = [], list[str]()
    for kind, partitions in checkpoint.partitions.items():
        shift = parameters.get(f"model/entities/{kind}/global_embedding", np.zeros(1))
        for part in range(partitions):
            place = checkpoint.file(f"embeddings_{kind}_{part}")
            table = _arrays(place).get("embeddings")
            if table is None:
                raise InputError(f"{place} has no data set `embeddings`: it must have a row for each entity")
            tables.append(table + shift)
            entity_names += _names((names or folder) / f"entity_names_{kind}_{part}.json", len(table))
    if len({table.shape[1] for table in tables}) != 1:
        raise InputError(f"{folder} has types of entities with different embedding sizes: they must have the same")
    _check_names(entity_names)
    entities = check_table(np.concatenate(tables), str(folder))
    relations = check_table(_relations(checkpoint, parameters), str(checkpoint.file("model")))
    return Foreign(
        model,
        dict(options),
        "halves",
        Table(entities, entity_names, f"{folder} (embeddings)"),
        Table(relations, list(checkpoint.relations), str(checkpoint.file("model"))),
    )


def _settings(folder: Path) -> _Checkpoint:
    path = folder / "config.json"
    try:
        found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = int((folder / "checkpoint_version.txt").read_text(encoding="utf-8"))
        relations = found["relations"]
        operators = {str(one["operator"]) for one in relations}
        partitions = {str(kind): int(one.get("num_partitions", 1)) for kind, one in found["entities"].items()}
        names = [str(one.get("name") or number) for number, one in enumerate(relations)]
        comparator = str(found.get("comparator", "cos"))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read: give a checkpoint folder of PyTorch-BigGraph") from error
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise InputError(f"{path} cannot be read as the settings of PyTorch-BigGraph: {error!r}") from error
    if found.get("dynamic_relations"):
        raise InputError(
            f"{path} has dynamic relations: they have a score for each direction, and kgcal has one score for a "
            "triple; train the model without them"
        )
    pairs = {(operator, comparator) for operator in operators}
    if len(pairs) != 1 or not pairs <= set(MODELS_OF) or found.get("bias"):
        known = "; ".join(f"{operator} with {metric}" for operator, metric in MODELS_OF)
        bias = " and a bias" if found.get("bias") else ""
        raise InputError(
            f"{path} has the operators {', '.join(sorted(operators))} with the comparator {comparator}{bias}: kgcal "
            f"can import one operator without a bias: {known}"
        )
    return _Checkpoint(folder, version, partitions, names, operators.pop(), comparator)


def _relations(checkpoint: _Checkpoint, parameters: Mapping[str, Numbers]) -> Numbers:
    """Return the rows of the relations, with the meaning that they have in kgcal."""
    rows = []
    for number in range(len(checkpoint.relations)):
        keys = [f"model/relations/{number}/operator/rhs/{name}" for name in PARAMETERS[checkpoint.operator]]
        missing = [key for key in keys if key not in parameters]
        if missing:
            raise InputError(f"{checkpoint.file('model')} has no data set {missing[0]}")
        rows.append([parameters[key] for key in keys])
    found: Numbers = np.array(rows)  # (relations, parameters, width)
    if checkpoint.operator == "complex_diagonal":
        return np.concatenate([found[:, 0], -found[:, 1]], axis=1)
    return -found[:, 0] if checkpoint.operator == "translation" else found[:, 0]


def _arrays(path: Path) -> dict[str, Numbers]:
    """Return the arrays of real numbers in an HDF5 file: name -> array."""
    try:
        import h5py
    except ImportError as error:
        needs = "PyTorch-BigGraph writes HDF5 files, which need h5py: `pip install 'kgcal[biggraph]'`"
        raise InputError(needs) from error
    found: dict[str, Numbers] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.dtype.kind == "f":
            found[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            file.visititems(keep)
    except OSError as error:
        raise InputError(f"{path} cannot be read as HDF5: {error}") from error
    return found


def _names(path: Path, count: int) -> list[str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: name the folder with entity_names_*.json with --names") from error
    except ValueError as error:
        raise InputError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(found, list) or len(found) != count:
        has = f"{len(found):,}" if isinstance(found, list) else "no"
        raise InputError(f"{path} has {has} names: there must be {count:,}, one for each row of the embeddings")
    return [str(name) for name in found]


def _check_names(names: Sequence[str]) -> None:
    seen = set[str]()
    for name in names:
        if name in seen:
            raise InputError(f"{name} is the name of two entities: each must have its own name, also in other types")
        seen.add(name)
