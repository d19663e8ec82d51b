"""The part of the graph that a step of a model with an encoder sees."""

import numpy as np
import pytest
import torch

from kgcore.embed.models.base import GraphModel
from kgcore.embed.training.step import around
from tests.core.model_cases import bound, rows


@pytest.mark.parametrize(
    ("hops", "entities", "places"), [(1, [1, 2, 3], [0, 1, 3, 4]), (2, [1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5])]
)
def test_it_holds_the_triples_that_reach_an_entity(hops: int, entities: list[int], places: list[int]) -> None:
    triples = torch.tensor([[1, 0, 2], [3, 1, 2], [4, 0, 3], [2, 0, 2], [1, 0, 2], [5, 2, 1], [2, 0, 4], [0, 0, 6]])
    wanted = torch.tensor([2, 2])
    found, kept = around(wanted, hops, 8, triples)
    assert found.tolist() == entities
    original = torch.stack([found[kept[:, 0]], kept[:, 1], found[kept[:, 2]]], 1)
    torch.testing.assert_close(original, triples[places])


def test_an_entity_without_triples_is_alone() -> None:
    found, kept = around(torch.tensor([7]), 2, 8, torch.tensor([[1, 0, 2]]))
    assert (found.tolist(), kept.shape) == ([7], (0, 3))


def test_wanted_entities_are_encoded_as_in_the_whole_graph(rng: np.random.Generator) -> None:
    model = bound("kbgat", {"filters": 2})
    assert isinstance(model, GraphModel)
    entities, predicates, _ = rows(model, 60)
    triples = torch.tensor(np.c_[rng.integers(60, size=90), rng.integers(3, size=90), rng.integers(60, size=90)])
    wanted = torch.tensor([3, 17, 44])
    expected, _ = model.encode(entities, predicates[:3], triples)
    numbers, part = around(wanted, model.hops, 60, triples)
    assert len(wanted) < len(numbers) < 60
    found, _ = model.encode(entities[numbers], predicates[:3], part)
    np.testing.assert_allclose(found[torch.searchsorted(numbers, wanted)], expected[wanted], rtol=1e-12)
