"""Scoring functions, compared with hand numbers; and properties of single scoring functions."""

import numpy as np
import pytest
import torch

from kgcore.embed.models.base import GraphModel
from kgcore.registries import MODELS
from kgcore.registry import build
from tests.core.model_cases import Options, bound, rows
from tests.core.second_formulas import encoded


def test_transe_by_hand() -> None:
    model = build(MODELS.get("transe"), {}, 2)
    s, p, o = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -1.0]]), torch.tensor([[1.0, 3.0]])
    assert model.score(s, p, o).item() == -2.5


def test_rotate_by_hand() -> None:
    """A quarter turn maps 3 to 3i, at distance 5 from 4; half a turn maps 1 + i to -1 - i, the object itself."""
    s, o = torch.tensor([3.0, 1.0, 0.0, 1.0]), torch.tensor([4.0, -1.0, 0.0, -1.0])
    p = torch.tensor([torch.pi / 2, torch.pi])
    assert bound("rotate", k=2).score(s, p, o).item() == pytest.approx(-5, abs=1e-5)


def test_rotate_with_norm_2_by_hand() -> None:
    """The distances of two components, 5 and 12, have the root of the sum of squares 13, and the sum 17."""
    s, o, p = torch.tensor([3.0, 12.0, 0.0, 0.0]), torch.tensor([4.0, 0.0, 0.0, 0.0]), torch.tensor([torch.pi / 2, 0.0])
    scores = [build(MODELS.get("rotate"), {"norm": norm}, 2).score(s, p, o).item() for norm in (1, 2)]
    assert scores == pytest.approx([-17, -13], abs=1e-4)


def test_toruse_by_hand() -> None:
    """0.75 + 0.5 is 0.25 modulo 1, at distance 0.25 from 0.0 and from 3.0; 0.9 and 0.1 have distance 0.2."""
    s, p, o = torch.tensor([0.75, 0.75, 0.9]), torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.0, 3.0, 0.1])
    assert bound("toruse", k=3).score(s, p, o).item() == pytest.approx(-(0.5 + 0.5 + 0.4))
    assert bound("toruse", {"norm": 2}, k=3).score(s, p, o).item() == pytest.approx(-(0.25 + 0.25 + 0.16))


def test_convkb_by_hand() -> None:
    """One filter computes s + r - o: 1 + 2 - 4 < 0 and 2 + 3 - 1 = 4. The other computes o - 1: 3 and 0."""
    filters = torch.tensor([[1.0, 1.0, -1.0], [0.0, 0.0, 1.0]])
    weights = torch.tensor([[5.0, 10.0], [100.0, 1000.0]])
    shared = {"filters": filters, "bias": torch.tensor([0.0, -1.0]), "weights": weights}
    model = build(MODELS.get("convkb"), {"filters": 2}, 2).bound(shared)
    s, p, o = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0]), torch.tensor([4.0, 1.0])
    assert model.score(s, p, o).item() == 5 * 0 + 10 * 4 + 100 * 3 + 1000 * 0


def test_capse_by_hand() -> None:
    """One filter computes s + r - o = (1, 3): the votes (3, 0) and (0, 12) have the mean (1.5, 6) of square 38.25.

    A capsule of zeros has length 0.
    """
    votes = torch.tensor([[[3.0, 0.0], [0.0, 4.0]]])
    shared = {"filters": torch.tensor([[1.0, 1.0, -1.0]]), "bias": torch.zeros(1), "votes": votes}
    s, p, o = torch.tensor([2.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([4.0, 3.0])
    options = {"filters": 1, "capsule": 2, "log_odds": False}
    model = build(MODELS.get("capse"), options, 2).bound(shared)
    assert model.score(s, p, o).item() == pytest.approx(38.25 / 39.25)
    assert model.score(s, p, 9 * o).item() == 0
    assert build(MODELS.get("capse"), {}, 2).bound(shared).score(s, p, o).item() == pytest.approx(np.log(38.25))


@pytest.mark.parametrize("options", [{}, {"routings": 3}])
def test_capsules_of_length_zero_have_a_gradient(options: Options) -> None:
    for log_odds in (False, True):
        model = bound("capse", options | {"log_odds": log_odds})
        dead = model.bound(model.shared | {"bias": torch.full((32,), -1e3, dtype=torch.float64)})
        s, p, o = (v.requires_grad_() for v in rows(model, 3))
        gradients = torch.autograd.grad(dead.score(s, p, o).sum(), (s, p, o))
        assert all((gradient == 0).all() for gradient in gradients)


def test_capse_without_log_odds_is_a_length_below_one() -> None:
    model = bound("capse", {"routings": 2, "log_odds": False})
    scores = model.score(*rows(model, 200))
    assert ((scores >= 0) & (scores < 1)).all()


@pytest.mark.parametrize("heads", [1, 3])
def test_kbgat_encodes_by_attention_over_neighbours(rng: np.random.Generator, heads: int) -> None:
    model = bound("kbgat", {"filters": 2, "heads": heads})
    assert isinstance(model, GraphModel)
    entities, predicates, _ = rows(model, 7)
    triples = np.c_[
        rng.integers(7, size=15), rng.integers(3, size=15), rng.integers(5, size=15)
    ]  # 5 and 6 are never objects
    triples = np.concatenate([triples, triples[:1]])  # a triple that occurs twice counts twice
    numbers = {key: tensor.numpy() for key, tensor in model.shared.items()}
    expected = encoded(entities.numpy(), predicates[:3].numpy(), triples, numbers)
    for table, second in zip(model.encode(entities, predicates[:3], torch.from_numpy(triples)), expected, strict=True):
        np.testing.assert_allclose(table, second, rtol=1e-9)
    own = model.encode(entities, predicates[:3], torch.zeros(0, 3, dtype=torch.int64))[0]
    np.testing.assert_allclose(own, entities @ model.shared["encoder.entity_map"])


def test_attention_does_not_overflow_and_its_gradients_equal_finite_differences() -> None:
    model = bound("kbgat", {"filters": 2}, k=3)
    assert isinstance(model, GraphModel)
    entities, predicates, _ = rows(model, 4)
    triples = torch.tensor([[0, 0, 1], [2, 1, 1], [3, 0, 1], [1, 1, 0], [0, 0, 3]])
    assert all(table.isfinite().all() for table in model.encode(1e4 * entities, 1e4 * predicates, triples))
    names = [name for name in model.shared if name.startswith("encoder.")]
    leaves = [v.requires_grad_() for v in (entities, predicates[:2], *(model.shared[name] for name in names))]

    def encode(entities: torch.Tensor, predicates: torch.Tensor, *shared: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return model.bound(dict(zip(names, shared, strict=True))).encode(entities, predicates, triples)

    assert torch.autograd.gradcheck(encode, leaves)
