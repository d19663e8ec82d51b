"""Models of LibKGE, in another order than the graph: scores by LibKGE's own formulas; a sentence for wrong files."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.wings.imports.embeddings import Foreign, import_model
from kgcore.wings.imports.libraries import read_libkge

ENTITIES, PREDICATES = ("a", "b", "c", "d"), ("likes", "owns")
FILE_ENTITIES, FILE_PREDICATES = ("d", "unused", "b", "a", "c"), ("owns", "likes")
TRIPLES = np.array([[s, p, o] for s in range(4) for p in range(2) for o in range(4)])
K = 6
RNG = np.random.default_rng(3)
E, R = RNG.normal(size=(5, K)).astype(np.float32), RNG.normal(size=(2, K)).astype(np.float32)
PHASES = RNG.uniform(-2, 2, size=(2, K // 2)).astype(np.float32)
Formula = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def graph() -> KnowledgeGraph:
    split = Split(TRIPLES, np.ones(len(TRIPLES)))
    return KnowledgeGraph("toy", ENTITIES, PREDICATES, split, split, split)


def check(foreign: Foreign, relations: np.ndarray, formula: Formula) -> None:
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
    np.testing.assert_allclose(imported.model.score(TRIPLES), expected, atol=1e-5, rtol=0)


def sum_of_products(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    return sum(h[i] * r[i] * t[i] for i in range(K))


def four_products(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
    """ComplEx in real numbers (Trouillon et al. 2016, equation 11): the first half of a row has the real parts."""
    n = K // 2
    return sum(
        h[i] * r[i] * t[i] + h[n + i] * r[i] * t[n + i] + h[i] * r[n + i] * t[n + i] - h[n + i] * r[n + i] * t[i]
        for i in range(n)
    )


def rotation(power: int) -> Formula:
    """Return the distance after a rotation by the phases of the relation, in real numbers."""

    def distance(h: np.ndarray, r: np.ndarray, t: np.ndarray) -> float:
        n = K // 2
        re = h[:n] * np.cos(r) - h[n:] * np.sin(r) - t[:n]
        im = h[:n] * np.sin(r) + h[n:] * np.cos(r) - t[n:]
        return -float((np.sqrt(re**2 + im**2) ** power).sum() ** (1 / power))

    return distance


def translation(power: int) -> Formula:
    return lambda h, r, t: -(sum(abs(h[i] + r[i] - t[i]) ** power for i in range(K)) ** (1 / power))


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
    for file, names in (("entity_ids.del", FILE_ENTITIES), ("relation_ids.del", FILE_PREDICATES)):
        (folder / file).write_text("".join(f"{row}\t{name}\n" for row, name in enumerate(names)))
    return folder / "checkpoint_best.pt"


@pytest.mark.parametrize(
    ("options", "relations", "formula"),
    [
        ({"model": "transe"}, R, translation(2)),
        ({"model": "transe", "transe": {"l_norm": 1.0}}, R, translation(1)),
        ({"model": "distmult"}, R, sum_of_products),
        ({"model": "complex", "complex": {"class_name": "ComplEx"}}, R, four_products),
        ({"model": "rotate"}, PHASES, rotation(1)),
        ({"model": "rotate", "rotate": {"l_norm": 2.0}}, PHASES, rotation(2)),
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
