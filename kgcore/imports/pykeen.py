"""Read a folder that PyKEEN's pipeline has written (`save_to_directory`). Another process loads its pickle.

PyKEEN's scoring functions, for a head h, a relation r and a tail t (pykeen/nn/modules.py):

    TransE    -||h + r - t||_p
    DistMult  sum_i h_i r_i t_i
    ComplEx   Re(sum_i h_i r_i conj(t_i))
    RotatE    -||h r - t||_p of a complex vector; p = 2: the root of the sum of all |.|^2
    HolE      r . (h corr t)

They are those of kgcore/models, with norm = p.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgcore.errors import InputError
from kgcore.imports.embeddings import Foreign, Table
from kgcore.imports.names import read_names

CHECKPOINT = "trained_model.pkl"
NAMES = {"entities": "entity_to_id.tsv.gz", "relations": "relation_to_id.tsv.gz"}
TRIPLES = "training_triples"
MODELS_OF = {
    "TransEInteraction": "transe",
    "DistMultInteraction": "distmult",
    "ComplExInteraction": "complex",
    "RotatEInteraction": "rotate",
    "HolEInteraction": "hole",
}
WITH_NORM = ("transe", "rotate")
SCRIPT = Path(__file__).with_name("pykeen_export.py")
SECONDS = 600.0  # longest time to load a checkpoint


def read_pykeen(folder: Path, python: str, trust: bool) -> Foreign:
    """Return the model of the folder.

    python  the Python interpreter of the process that loads the pickle: it needs PyKEEN, its torch and safetensors
    trust   whether the user trusts the pickle, which may run any code

    Raises InputError if it is not trusted, if a file is missing or cannot be read, or if kgcal does not have the model.
    """
    checkpoint = folder / CHECKPOINT
    if not checkpoint.is_file():
        raise InputError(f"{folder} has no {CHECKPOINT}: give a folder that PyKEEN's save_to_directory has written")
    if not trust:
        raise InputError(
            f"{checkpoint} is a pickle: to load it runs the code that is in it; add --trust if you trust its source"
        )
    places = {kind: folder / TRIPLES / name for kind, name in NAMES.items()}
    names = {kind: read_names(place) for kind, place in places.items()}
    found, tables = _loaded(checkpoint, python)
    model, options = _model(checkpoint, found)
    entities, relations = (
        Table(tables[kind], names[kind], f"{checkpoint} ({kind}, named in {places[kind]})") for kind in NAMES
    )
    return Foreign(model, options, "halves", entities, relations)


def _loaded(checkpoint: Path, python: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Load the checkpoint in another process. Return what it is, and its tables."""
    from safetensors import safe_open

    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "tables.safetensors"
        words = [python, "-I", str(SCRIPT), str(checkpoint.resolve()), str(output)]
        try:
            done = subprocess.run(  # noqa: S603
                words, capture_output=True, text=True, timeout=SECONDS, cwd=name, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{checkpoint} cannot be loaded with {python}: {error}") from error
        if done.returncode or not output.is_file():
            said = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            raise InputError(
                f"{checkpoint} cannot be loaded with {python}: {said}. This Python must have PyKEEN, and safetensors: "
                "`pip install kgcal[pykeen]`, or name the Python that has trained the model with --python"
            )
        with safe_open(output, framework="numpy") as file:
            tables = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            found: Mapping[str, Any] = json.loads(file.metadata()["model"])
    return found, tables


def _model(checkpoint: Path, found: Mapping[str, Any]) -> tuple[str, dict[str, float | bool]]:
    """Return the name and the options of kgcal's scoring function. Raises InputError if there is none."""
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
