"""Models of DGL-KE and LibKGE: scores by each library's own formula; a sentence for wrong files."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kgcore.errors import InputError
from kgcore.imports.dglke import read_dglke
from kgcore.imports.libkge import read_libkge
from tests.core.foreign_models import (
    FILE_ENTITIES,
    FILE_PREDICATES,
    PHASES,
    E,
    Formula,
    K,
    R,
    check,
    four_products,
    rotation,
    sum_of_products,
    translation,
)

GAMMA = 9.0


def write_names(folder: Path, entities: str, relations: str, name_first: bool = False) -> None:
    for file, names in ((entities, FILE_ENTITIES), (relations, FILE_PREDICATES)):
        rows = [f"{name}\t{row}" if name_first else f"{row}\t{name}" for row, name in enumerate(names)]
        (folder / file).write_text("\n".join(rows) + "\n")


# --- DGL-KE


def dglke(folder: Path, name: str, relations: np.ndarray = R, **config: Any) -> Path:
    np.save(folder / f"toy_{name}_entity.npy", E)
    np.save(folder / f"toy_{name}_relation.npy", relations)
    settings = {"model_name": name, "dataset": "toy", "gamma": GAMMA, "hidden_dim": K // 2, "double_ent": True}
    (folder / "config.json").write_text(json.dumps(settings | config))
    write_names(folder, "entities.tsv", "relations.tsv")
    return folder


@pytest.mark.parametrize(
    ("name", "relations", "formula", "margin"),
    [
        ("TransE", R, translation(2), True),
        ("TransE_l1", R, translation(1), True),
        ("TransE_l2", R, translation(2), True),
        ("DistMult", R, sum_of_products, False),
        ("ComplEx", R, four_products, False),
        ("RotatE", PHASES, rotation(np.pi * (K // 2) / (GAMMA + 2), 1), True),
    ],
)
def test_dglke(tmp_path: Path, name: str, relations: np.ndarray, formula: Formula, margin: bool) -> None:
    def full(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
        return GAMMA + formula(h, r, t) if margin else formula(h, r, t)

    check(read_dglke(dglke(tmp_path, name, relations), None, None), relations, full, GAMMA if margin else 0.0)


def test_dglke_takes_names_from_other_files_in_either_order(tmp_path: Path) -> None:
    folder = dglke(tmp_path, "DistMult")
    for file in ("entities.tsv", "relations.tsv"):
        (folder / file).unlink()
    with pytest.raises(InputError, match=r"has no entities\.tsv or entities\.dict: .* with --entities FILE"):
        read_dglke(folder, None, None)
    write_names(folder, "e.txt", "relations.dict", name_first=True)
    check(read_dglke(folder, folder / "e.txt", None), R, sum_of_products)


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("TransR", {}, r"is of the model TransR: kgcal can import TransE, "),
        ("RotatE", {"gamma": "wide"}, "cannot be read as the settings"),
        ("RotatE", {"hidden_dim": 0}, r"hidden_dim = 0: gamma must be above -2, hidden_dim above 0"),
        ("TransE", {"model_name": "TransE_l1"}, r"must have one file \*_TransE_l1_entity\.npy, and has none"),
    ],
)
def test_dglke_that_cannot_be_used_is_refused(tmp_path: Path, name: str, config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_dglke(dglke(tmp_path, name, **config), None, None)


def test_a_folder_without_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no config\.json: give a folder that dglke_train has written"):
        read_dglke(tmp_path, None, None)
    (tmp_path / "config.json").write_text('{"gamma": 1, "hidden_dim": 2}')
    with pytest.raises(InputError, match="has no 'model_name': DGL-KE writes model_name, gamma and hidden_dim"):
        read_dglke(tmp_path, None, None)


# --- LibKGE


def libkge(folder: Path, options: dict[str, Any], relations: np.ndarray = R, config: Any = None) -> Path:
    """Write a checkpoint with an object of the class kge.config.Config, which exists only while it is written."""
    module, key = ModuleType("kge.config"), "embedder._embeddings.weight"
    module.Config = type("Config", (), {"__module__": "kge.config"})  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "kge", ModuleType("kge"))
        patch.setitem(sys.modules, "kge.config", module)
        made = module.Config()
        made.options, made.folder, made.log_folder = options, "/somewhere", None
        state = {f"_entity_{key}": torch.from_numpy(E), f"_relation_{key}": torch.from_numpy(relations)}
        saved = {"type": "train", "epoch": 3, "valid_trace": [{"mrr": 0.3}], "model": [state, {}]}
        torch.save(saved | {"config": config or made, "folder": "/somewhere"}, folder / "checkpoint_best.pt")
    write_names(folder, "entity_ids.del", "relation_ids.del")
    return folder / "checkpoint_best.pt"


@pytest.mark.parametrize(
    ("options", "relations", "formula"),
    [
        ({"model": "transe"}, R, translation(2)),
        ({"model": "transe", "transe": {"l_norm": 1.0}}, R, translation(1)),
        ({"model": "distmult"}, R, sum_of_products),
        ({"model": "complex", "complex": {"class_name": "ComplEx"}}, R, four_products),
        ({"model": "rotate"}, PHASES, rotation(1.0, 1)),
        ({"model": "rotate", "rotate": {"l_norm": 2.0}}, PHASES, rotation(1.0, 2)),
    ],
)
def test_libkge(tmp_path: Path, options: dict[str, Any], relations: np.ndarray, formula: Formula) -> None:
    checkpoint = libkge(tmp_path, options, relations)
    assert "kge" not in sys.modules  # nothing of LibKGE is needed, and --trust is not
    check(read_libkge(checkpoint, None, None, "no-python", trust=False), relations, formula)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "reciprocal_relations_model"}, "has reciprocal relations: it has a score for each direction"),
        ({"model": "conve"}, "is of the model conve: kgcal can import transe, distmult, complex, rotate of LibKGE"),
        ({"model": "transe", "transe": {"l_norm": 3}}, r"has transe\.l_norm = 3\.0: kgcal has the norms 1 and 2"),
        ({}, "cannot be read as a checkpoint of LibKGE: it must have the entries `model` and `config`"),
    ],
)
def test_libkge_that_cannot_be_used_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_libkge(libkge(tmp_path, options), None, None, "python", trust=False)


def test_a_pickle_with_other_objects_needs_trust_and_a_process_of_its_own(tmp_path: Path) -> None:
    checkpoint = libkge(tmp_path, {}, config=SimpleNamespace(options={"model": "distmult"}))
    with pytest.raises(InputError, match=r"is a pickle: to load it runs the code .* add --trust"):
        read_libkge(checkpoint, None, None, sys.executable, trust=False)
    check(read_libkge(checkpoint, None, None, sys.executable, trust=True), R, sum_of_products)
    with pytest.raises(InputError, match="cannot be loaded with no-python"):
        read_libkge(checkpoint, None, None, "no-python", trust=True)
