"""Trained models: a stored model gives the same scores, and the fingerprint changes with every number."""

from pathlib import Path

import numpy as np
import pytest
import torch

from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.registries import MODELS
from kgcore.storage.folders import read_model, write_model
from tests.core.model_cases import bound, rows
from tests.core.second_formulas import K


@pytest.mark.parametrize("name", MODELS.names())
def test_a_stored_model_scores_the_same(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    model = bound(name)
    entities, predicates, _ = (table.float() for table in rows(model, 12))
    shared = {key: tensor.float() for key, tensor in model.shared.items()}
    trained = TrainedModel(name, K, Embeddings(entities, predicates, shared))
    write_model(tmp_path, trained)
    read = read_model(tmp_path)
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
