"""Trained models: a stored model gives the same scores, and the fingerprint changes with every number."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kgcore import storage
from kgcore.models.base import Embeddings
from kgcore.models.trained import TrainedModel
from kgcore.registries import MODELS
from tests.core.model_cases import Options, bound, rows
from tests.core.second_formulas import K


@pytest.mark.parametrize("name", MODELS.names())
def test_a_stored_model_scores_the_same(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    model = bound(name)
    entities, predicates, _ = (table.float() for table in rows(model, 12))
    shared = {key: tensor.float() for key, tensor in model.shared.items()}
    trained = TrainedModel(name, K, Embeddings(entities, predicates, shared))
    storage.write_model(tmp_path, trained)
    read = storage.read_model(tmp_path)
    triples = rng.integers(12, size=(20, 3))
    np.testing.assert_array_equal(read.score(triples), trained.score(triples))
    assert read.fingerprint() == trained.fingerprint()


def test_blocks_do_not_change_scores(rng: np.random.Generator) -> None:
    tables = Embeddings(torch.randn(10, K), torch.randn(2, K))
    trained = TrainedModel("transe", K, tables)
    triples = np.c_[rng.integers(10, size=33), rng.integers(2, size=33), rng.integers(10, size=33)]
    np.testing.assert_array_equal(trained.score(triples), trained.score(triples, rows=4))
    assert trained.score(triples).dtype == np.float64


def test_every_number_and_option_changes_the_fingerprint() -> None:
    tables = Embeddings(torch.randn(10, K), torch.randn(2, K))
    trained = TrainedModel("transe", K, tables)
    changed = tables.entities.clone()
    changed[9, 7] += 1e-6 + changed[9, 7].abs() * 1e-6
    assert TrainedModel("transe", K, Embeddings(changed, tables.predicates)).fingerprint() != trained.fingerprint()
    assert TrainedModel("transe", K, tables, {"norm": 2}).fingerprint() != trained.fingerprint()


def counted(*shape: int) -> torch.Tensor:
    """Return numbers that are the same in every version: ..., -1/8, 0, 1/8, ..."""
    size = int(np.prod(shape))
    return (torch.arange(size, dtype=torch.float32).reshape(shape) - size // 2) / 8


CAPSE = {"filters": counted(2, 3), "bias": counted(2), "votes": counted(2, 4, 3)}


@pytest.mark.parametrize(
    ("name", "width", "shared", "options", "fingerprint", "scores"),
    [
        (
            "capse",
            4,
            CAPSE,
            {"filters": 2.0, "capsule": 3.0, "log_odds": 0.0},
            "0eca054aaa5d796f8959868638d5b68c4e5055b146a84a76ee6691a5cbbd55a5",
            [0.312344253, 0.002944358],
        ),
        (
            "capse",
            4,
            CAPSE,
            {"filters": 2.0, "capsule": 3.0, "log_odds": 1.0},
            "8ce922f0ad1c3d64303d22b1cde507560b57d4254c094ed10473b2449750c9cd",
            [-0.789182425, -5.824915886],
        ),
        (
            "kg2e",
            8,
            {},
            {"likelihood": 1.0},
            "79f0a4477d3d18904ad1e9e29ade44124d8efb8f240065e08354602ec6c3fc53",
            [-4.150466442, -8.152368546],
        ),
    ],
)
def test_a_model_stored_with_numbers_for_switches_is_read_unchanged(
    tmp_path: Path,
    name: str,
    width: int,
    shared: dict[str, torch.Tensor],
    options: Options,
    fingerprint: str,
    scores: list[float],
) -> None:
    """Fingerprints and scores equal those of the earlier version, which stored 1.0 and 0.0 for true and false."""
    trained = TrainedModel(name, 4, Embeddings(counted(5, width), counted(2, width), shared), options)
    storage.write_model(tmp_path, trained)
    assert storage.read_json(tmp_path / "model.json")["options"] == options
    read = storage.read_model(tmp_path)
    assert read.fingerprint() == trained.fingerprint() == fingerprint
    np.testing.assert_allclose(read.score(np.array([[0, 0, 1], [4, 1, 2]])), scores, rtol=1e-5)
