"""Scoring functions against second formulas, and what the contract promises for every registered one."""

import numpy as np
import pytest
import torch

from kgcore.errors import InputError
from kgcore.models import MODELS
from kgcore.models.base import Embeddings, Model, TrainedModel
from kgcore.registry import build

K = 8


def transe(s, p, o, norm=1):
    return -np.linalg.norm(s + p - o, ord=norm)


def distmult(s, p, o):
    return float(s @ np.diag(p) @ o)


def complex_(s, p, o):
    s, p, o = (v[:K] + 1j * v[K:] for v in (s, p, o))
    return float((s * p * o.conj()).sum().real)


def hole(s, p, o):
    return sum(p[j] * s[i] * o[(i + j) % K] for i in range(K) for j in range(K))


SECOND_FORMULA = {"transe": transe, "distmult": distmult, "complex": complex_, "hole": hole}


def rows(model: Model, n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    widths = (model.entity_width, model.predicate_width, model.entity_width)
    s, p, o = (torch.randn(n, width, generator=generator, dtype=torch.float64) for width in widths)
    return s, p, o


@pytest.fixture(params=MODELS.names())
def model(request: pytest.FixtureRequest) -> Model:
    built: Model = build(MODELS.get(request.param), {}, K)
    return built


@pytest.mark.parametrize("name", MODELS.names())
def test_score_is_the_second_formula(name: str) -> None:
    model = build(MODELS.get(name), {}, K)
    s, p, o = rows(model, 5)
    expected = [SECOND_FORMULA[name](*(v.numpy() for v in triple)) for triple in zip(s, p, o, strict=True)]
    np.testing.assert_allclose(model.score(s, p, o), expected, rtol=1e-6)


def test_transe_has_a_second_norm() -> None:
    s, p, o = rows(build(MODELS.get("transe"), {}, K), 5)
    expected = [transe(*(v.numpy() for v in triple), norm=2) for triple in zip(s, p, o, strict=True)]
    np.testing.assert_allclose(build(MODELS.get("transe"), {"norm": 2}, K).score(s, p, o), expected, rtol=1e-6)


def test_transe_by_hand() -> None:
    model = build(MODELS.get("transe"), {}, 2)
    s, p, o = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.5, -1.0]]), torch.tensor([[1.0, 3.0]])
    assert model.score(s, p, o).item() == -2.5


def test_both_queries_give_the_score(model: Model) -> None:
    s, p, o = rows(model, 6)
    by_subject = model.comparator.pairs(model.subject_query(p, o), s)
    np.testing.assert_allclose(by_subject, model.score(s, p, o), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("options", [{}, {"norm": 2}])
def test_scoring_every_entity_is_scoring_one_by_one(model: Model, options: dict[str, float]) -> None:
    if options and not isinstance(model, MODELS.get("transe")):
        return
    model = build(type(model), options, K)
    s, p, o = rows(model, 6)
    outer = model.comparator.outer(model.object_query(s, p), o)
    for i in range(6):
        for j in range(6):
            one = model.score(s[i], p[i], o[j])
            np.testing.assert_allclose(outer[i, j], one, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_finite_differences(model: Model) -> None:
    s, p, o = (v.requires_grad_() for v in rows(model, 3))
    assert torch.autograd.gradcheck(model.score, (s, p, o))
    assert torch.autograd.gradcheck(lambda s, p, o: model.comparator.outer(model.subject_query(p, o), s), (s, p, o))


def test_gradients_of_the_outer_comparison_are_those_of_pairs(model: Model) -> None:
    s, p, o = (v.requires_grad_() for v in rows(model, 4))
    weights = torch.arange(16, dtype=torch.float64).reshape(4, 4)
    outer = (model.comparator.outer(model.object_query(s, p), o) * weights).sum()
    pairs = (model.comparator.pairs(model.object_query(s, p).unsqueeze(1), o.unsqueeze(0)) * weights).sum()
    for a, b in zip(torch.autograd.grad(outer, (s, p, o)), torch.autograd.grad(pairs, (s, p, o)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"TransE has no option 'nrom': it has norm"):
        build(MODELS.get("transe"), {"nrom": 2}, K)
    with pytest.raises(InputError, match="norm is 3"):
        build(MODELS.get("transe"), {"norm": 3}, K)


def test_blocks_do_not_change_scores_and_the_fingerprint_sees_every_number(rng: np.random.Generator) -> None:
    tables = Embeddings(torch.randn(10, K), torch.randn(2, K))
    trained = TrainedModel("transe", K, tables)
    triples = np.c_[rng.integers(10, size=33), rng.integers(2, size=33), rng.integers(10, size=33)]
    np.testing.assert_array_equal(trained.score(triples), trained.score(triples, rows=4))
    assert trained.score(triples).dtype == np.float64
    changed = tables.entities.clone()
    changed[9, 7] += 1e-6 + changed[9, 7].abs() * 1e-6
    assert TrainedModel("transe", K, Embeddings(changed, tables.predicates)).fingerprint() != trained.fingerprint()
    assert TrainedModel("transe", K, tables, {"norm": 2}).fingerprint() != trained.fingerprint()
