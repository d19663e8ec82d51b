"""Training steps that a GPU records, compared with automatic differentiation; and a GPU compared with a CPU."""

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import GraphModel
from kgcore.embed.training.loop import Training, train
from kgcore.registries import MODELS
from kgcore.wings.fast_gpu.draws import DrawnSteps
from kgcore.wings.fast_gpu.training import GpuBackend, places_of_equals
from tests.core.trainings import CPU

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
FACTORISED = [name for name in MODELS.names() if not issubclass(MODELS.get(name), GraphModel)]
SETTINGS: dict[str, dict[str, Any]] = {
    "shared": {"chunk_size": 16},
    "per_triple": {"chunk_size": 1, "optimiser": "adagrad"},
    "penalty": {"chunk_size": 16, "training_eta": 5, "lp_weight": 1e-3, "loss": "nll"},
}


def graph() -> KnowledgeGraph:
    triples = np.random.default_rng(0).integers((40, 3, 40), size=(500, 3))
    none, names = Split(triples[:0], np.zeros(0)), [str(number) for number in range(40)]
    return KnowledgeGraph("small", names, names[:3], Split(triples, np.ones(500)), none, none)


ROW_BY_ROW = {"shared"}  # settings with which entities are updated as in a large table; the others, in one pass


def trained(model: str, backend: type[GpuBackend] | None, settings: str) -> Training:
    """Train on the CPU by the steps of a backend; None: by automatic differentiation of single steps.

    The host draws the corruptions: test_drawn_steps.py has those that a GPU draws.
    """
    config = TrainConfig(model=model, k=8, epochs=3, batch_size=200, **SETTINGS[settings])
    with (
        patch("kgcore.embed.training.loop.backend_of", lambda device: backend),
        patch.object(DrawnSteps, "can_draw", lambda corruptions: False),
        patch("kgcore.wings.fast_gpu.training.LARGE", 0 if settings in ROW_BY_ROW else 2**27),
        patch("kgcore.wings.fast_gpu.training.SMALL", 0 if settings in ROW_BY_ROW else 2**22),
    ):
        return train(graph(), config, CPU)


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("model", FACTORISED)
def test_recorded_steps_train_as_single_steps_do(model: str, settings: str) -> None:
    ours, plain = (trained(model, backend, settings) for backend in (GpuBackend, None))
    np.testing.assert_allclose(ours.losses, plain.losses, rtol=1e-5)
    tables, expected = ours.model.embeddings, plain.model.embeddings
    np.testing.assert_allclose(tables.entities, expected.entities, atol=2e-5)
    np.testing.assert_allclose(tables.predicates, expected.predicates, atol=2e-5)
    for name, table in tables.shared.items():
        np.testing.assert_allclose(table, expected.shared[name], atol=2e-5)


def test_equal_ids_have_one_place_where_the_id_stands() -> None:
    ids = torch.tensor([4, 1, 4, 0, 1, 4])
    places = places_of_equals(ids, torch.zeros(5, dtype=torch.int64))
    assert torch.equal(ids[places], ids)
    assert len(places.unique()) == len(ids.unique())


@GPU
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("model", MODELS.names())
def test_a_gpu_trains_as_a_cpu_does(model: str, settings: str) -> None:
    config = TrainConfig(model=model, k=8, epochs=5, batch_size=200, **SETTINGS[settings])
    on_gpu = train(graph(), config, torch.device("cuda"))
    with patch("kgcore.embed.training.loop.backend_of", lambda device: GpuBackend):
        on_cpu = train(graph(), config, CPU)
    np.testing.assert_allclose(on_gpu.losses, on_cpu.losses, rtol=1e-3)
