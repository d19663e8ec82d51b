"""Read a folder that PyKEEN's pipeline has written (`save_to_directory`). Another process loads its pickle.

PyKEEN's scoring functions, for a head h, a relation r and a tail t (pykeen/nn/modules.py):

    TransE    -||h + r - t||_p
    DistMult  sum_i h_i r_i t_i
    ComplEx   Re(sum_i h_i r_i conj(t_i))
    RotatE    -||h r - t||_p of a complex vector; p = 2: the root of the sum of all |.|^2
    HolE      r . (h corr t)

They are those of kgcore/models, with norm = p.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kgcore.errors import InputError
from kgcore.imports.embeddings import Foreign, Table
from kgcore.imports.names import read_names
from kgcore.imports.process import check_trust, load_apart

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
NEEDS = (
    "PyKEEN, and safetensors: `pip install kgcal[pykeen]`, or name the Python that has trained the model with --python"
)


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
    places = {kind: folder / TRIPLES / name for kind, name in NAMES.items()}
    names = {kind: read_names(place) for kind, place in places.items()}
    found, tables = load_apart(SCRIPT, checkpoint, python, NEEDS)
    model, options = _model(checkpoint, found)
    entities, relations = (
        Table(tables[kind], names[kind], f"{checkpoint} ({kind}, named in {places[kind]})") for kind in NAMES
    )
    return Foreign(model, options, "halves", entities, relations)


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
