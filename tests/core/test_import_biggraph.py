"""Models of PyTorch-BigGraph: scores by its operators and comparators; a sentence for wrong files."""

import json
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from kgcore.errors import InputError
from kgcore.imports.biggraph import read_biggraph
from tests.core.foreign_models import FILE_ENTITIES, FILE_PREDICATES, E, Formula, K, R, check, sum_of_products

SHIFT = np.array([0.5, -1.0, 0.25, 2.0, 0.0, 1.5], dtype=np.float32)


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
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)


def complex_dot(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    """The dot product of the left side with the complex product of the relation and the right side."""
    n = K // 2
    re, im = r[:n] * t[:n] - r[n:] * t[n:], r[:n] * t[n:] + r[n:] * t[:n]
    return float(h @ np.concatenate([re, im]))


@pytest.mark.parametrize("shift", [None, SHIFT])
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
    folder = biggraph(tmp_path, "diagonal", "dot")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"which need h5py: `pip install 'kgcal\[biggraph\]'`"):
        read_biggraph(folder, None)
