"""Models of DGL-KE, LibKGE and PyTorch-BigGraph: scores by each library's own formula; a sentence for wrong files."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kgcore.errors import InputError
from kgcore.graph import KnowledgeGraph, Split
from kgcore.imports.biggraph import read_biggraph
from kgcore.imports.dglke import read_dglke
from kgcore.imports.embeddings import Foreign, import_model
from kgcore.imports.libkge import read_libkge

ENTITIES, PREDICATES = ("a", "b", "c", "d"), ("likes", "owns")
FILE_ENTITIES, FILE_PREDICATES = ("d", "unused", "b", "a", "c"), ("owns", "likes")
TRIPLES = np.array([[s, p, o] for s in range(4) for p in range(2) for o in range(4)])
K, GAMMA = 6, 9.0
RNG = np.random.default_rng(3)
E, R = RNG.normal(size=(5, K)).astype(np.float32), RNG.normal(size=(2, K)).astype(np.float32)
PHASES = RNG.uniform(-2, 2, size=(2, K // 2)).astype(np.float32)
Formula = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def graph() -> KnowledgeGraph:
    split = Split(TRIPLES, np.ones(len(TRIPLES)))
    return KnowledgeGraph("toy", ENTITIES, PREDICATES, split, split, split)


def check(foreign: Foreign, relations: np.ndarray, formula: Formula, constant: float = 0.0) -> None:
    """Assert that the scores of the graph's triples are those of the formula, for the rows with these names."""
    expected = [
        formula(
            E[FILE_ENTITIES.index(ENTITIES[s])].astype(np.float64),
            relations[FILE_PREDICATES.index(PREDICATES[p])].astype(np.float64),
            E[FILE_ENTITIES.index(ENTITIES[o])].astype(np.float64),
        )
        for s, p, o in TRIPLES
    ]
    imported = import_model(foreign, graph())
    assert (imported.unused_entities, imported.unused_relations) == (1, 0)
    np.testing.assert_allclose(imported.model.score(TRIPLES) + constant, expected, atol=1e-5, rtol=0)


def sum_of_products(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    return sum(h[i] * r[i] * t[i] for i in range(K))


def four_products(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    """ComplEx in real numbers (Trouillon et al. 2016, equation 11): the first half of a row has the real parts."""
    n = K // 2
    return sum(
        h[i] * r[i] * t[i] + h[n + i] * r[i] * t[n + i] + h[i] * r[n + i] * t[n + i] - h[n + i] * r[n + i] * t[i]
        for i in range(n)
    )


def rotation(scale: float, power: int) -> Formula:
    """Return the distance after a rotation by `scale` times the numbers of the relation, in real numbers."""

    def distance(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
        n, angle = K // 2, r * scale
        re = h[:n] * np.cos(angle) - h[n:] * np.sin(angle) - t[:n]
        im = h[:n] * np.sin(angle) + h[n:] * np.cos(angle) - t[n:]
        return -float((np.sqrt(re**2 + im**2) ** power).sum() ** (1 / power))

    return distance


def translation(power: int) -> Formula:
    return lambda h, r, t: -(sum(abs(h[i] + r[i] - t[i]) ** power for i in range(K)) ** (1 / power))


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


# --- PyTorch-BigGraph


@dataclass
class Dataset:
    """A stand-in for h5py.Dataset."""

    array: np.ndarray

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def __getitem__(self, item: tuple[()]) -> np.ndarray:
        return self.array


class Hdf5:
    """A stand-in for h5py.File: it reads NumPy's .npz. The format of HDF5 itself is h5py's matter."""

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays

    def visititems(self, function: Callable[[str, Any], None]) -> None:
        function("model", object())  # a group
        for name in self.arrays.files:
            function(name, Dataset(self.arrays[name]))


@pytest.fixture
def h5py(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def file(path: Path, mode: str) -> Iterator[Hdf5]:
        assert mode == "r"
        with np.load(path) as arrays:
            yield Hdf5(arrays)

    monkeypatch.setitem(sys.modules, "h5py", SimpleNamespace(File=file, Dataset=Dataset))


def biggraph(folder: Path, operator: str, comparator: str, shift: np.ndarray | None = None, **config: Any) -> Path:
    """Write a checkpoint: three entities in one partition, two in another one."""
    relations = [{"name": name, "lhs": "all", "rhs": "all", "operator": operator} for name in FILE_PREDICATES]
    settings = {"entities": {"all": {"num_partitions": 2}}, "relations": relations, "comparator": comparator}
    (folder / "config.json").write_text(json.dumps(settings | config))
    (folder / "checkpoint_version.txt").write_text("7\n")
    moved = E if shift is None else E - shift
    for part, rows in enumerate((slice(0, 3), slice(3, 5))):
        (folder / f"entity_names_all_{part}.json").write_text(json.dumps(FILE_ENTITIES[rows]))
        save(folder / f"embeddings_all_{part}.v7.h5", {"embeddings": moved[rows]})
    parameters = {} if shift is None else {"model/entities/all/global_embedding": shift}
    for number in range(2):
        parts = {"real": R[number, : K // 2], "imag": R[number, K // 2 :]}
        own = parts if operator == "complex_diagonal" else {operator: R[number]}
        parameters |= {f"model/relations/{number}/operator/rhs/{name}": value for name, value in own.items()}
    save(folder / "model.v7.h5", parameters | {"optimizer/state_dict": np.zeros(3, dtype=np.int8)})
    return folder


def save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def complex_dot(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    """The dot product of the left side with the complex product of the relation and the right side."""
    n = K // 2
    re, im = r[:n] * t[:n] - r[n:] * t[n:], r[:n] * t[n:] + r[n:] * t[:n]
    return float(h @ np.concatenate([re, im]))


@pytest.mark.usefixtures("h5py")
@pytest.mark.parametrize("shift", [None, RNG.normal(size=K).astype(np.float32)])
@pytest.mark.parametrize(
    ("operator", "comparator", "formula"),
    [
        ("diagonal", "dot", sum_of_products),
        ("complex_diagonal", "dot", complex_dot),
        ("translation", "l2", lambda h, r, t: -float(np.linalg.norm(h - (t + r)))),
    ],
)
def test_biggraph(tmp_path: Path, operator: str, comparator: str, formula: Formula, shift: np.ndarray | None) -> None:
    check(read_biggraph(biggraph(tmp_path, operator, comparator, shift), None), R, formula)


@pytest.mark.usefixtures("h5py")
@pytest.mark.parametrize(
    ("comparator", "config", "words"),
    [
        ("cos", {}, "has the operators diagonal with the comparator cos: kgcal can import one operator"),
        ("dot", {"bias": True}, "with the comparator dot and a bias: kgcal can import"),
        ("dot", {"dynamic_relations": True}, "has dynamic relations: they have a score for each direction"),
        ("dot", {"entities": {"all": {"num_partitions": 3}}}, r"embeddings_all_2\.v7\.h5 cannot be read as HDF5"),
        ("dot", {"relations": 3}, "cannot be read as the settings of PyTorch-BigGraph"),
    ],
)
def test_biggraph_that_cannot_be_used_is_refused(
    tmp_path: Path, comparator: str, config: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        read_biggraph(biggraph(tmp_path, "diagonal", comparator, **config), None)


@pytest.mark.usefixtures("h5py")
def test_biggraph_needs_a_name_for_each_row(tmp_path: Path) -> None:
    folder = biggraph(tmp_path, "diagonal", "dot")
    (folder / "entity_names_all_1.json").write_text('["a"]')
    with pytest.raises(InputError, match=r"entity_names_all_1\.json has 1 names: there must be 2"):
        read_biggraph(folder, None)
    with pytest.raises(InputError, match=r"entity_names_all_0\.json cannot be read: name the folder .* with --names"):
        read_biggraph(folder, tmp_path / "nowhere")
    (folder / "entity_names_all_1.json").write_text('["d", "c"]')
    with pytest.raises(InputError, match="d is the name of two entities"):
        read_biggraph(folder, None)


def test_without_h5py_a_sentence_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match="which need h5py: `pip install h5py`"):
        read_biggraph(biggraph(tmp_path, "diagonal", "dot"), None)
