"""Scoring functions, compared with second formulas; and what every registered scoring function must do."""

import itertools

import numpy as np
import pytest
import torch

from kgcore.embed.models.base import Model, QueryModel
from kgcore.embed.models.trained import BothWays
from kgcore.registries import MODELS
from tests.core.model_cases import CASES, FEW, OPTIONS, Options, bound, rows
from tests.core.second_formulas import SECOND_FORMULA, K

BOTH_WAYS = [(name, FEW.get(name, {}), True) for name in ("transe", "complex", "rescal", "conve")]


@pytest.fixture(
    params=[(*case, False) for case in CASES] + BOTH_WAYS,
    ids=lambda case: "-".join(
        [case[0], *(case[1] if case[:2] in OPTIONS else ()), *(["both-ways"] if case[2] else ())]
    ),
)
def case(request: pytest.FixtureRequest) -> tuple[str, Options, bool]:
    """Return the name of a model, its options, and whether it has inverse predicates."""
    return request.param


@pytest.fixture
def model(case: tuple[str, Options, bool]) -> Model:
    return made(*case)


def made(name: str, options: Options, both_ways: bool, k: int = K) -> Model:
    return BothWays(bound(name, options, k)) if both_ways else bound(name, options, k)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_scores_equal_the_second_formula(name: str, options: Options) -> None:
    model = bound(name, options)
    s, p, o = rows(model, 5)
    numbers = {key: tensor.numpy() for key, tensor in model.shared.items()}
    numbers |= {key: value for key, value in options.items() if key in ("norm", "likelihood", "routings", "log_odds")}
    second = SECOND_FORMULA[name]  # a model without a second formula fails here
    expected = [second(*(v.numpy() for v in triple), **numbers) for triple in zip(s, p, o, strict=True)]
    np.testing.assert_allclose(model.score(s, p, o), expected, rtol=1e-6)


def test_both_queries_give_the_score(model: Model) -> None:
    if isinstance(model, QueryModel):
        s, p, o = rows(model, 6)
        by_subject = model.comparator.pairs(model.subject_query(p, o), s)
        np.testing.assert_allclose(by_subject, model.score(s, p, o), rtol=1e-6, atol=1e-9)


def test_scoring_all_candidates_equals_scoring_them_one_by_one(model: Model) -> None:
    s, p, o = rows(model, 6)
    objects, subjects = model.score_objects(s, p, o), model.score_subjects(p, o, s)
    for i, j in itertools.product(range(6), repeat=2):
        np.testing.assert_allclose(objects[i, j], model.score(s[i], p[i], o[j]), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(subjects[i, j], model.score(s[j], p[i], o[i]), rtol=1e-5, atol=1e-6)


def test_chunks_are_scored_as_if_each_were_alone(model: Model) -> None:
    s, p, o = (v.view(2, 3, -1) for v in rows(model, 6))
    for score, query in ((model.score_objects, (s, p, o)), (model.score_subjects, (p, o, s))):
        alone = torch.stack([score(*(v[c] for v in query)) for c in range(2)])
        np.testing.assert_allclose(score(*query), alone, rtol=1e-9)


def test_gradients_equal_finite_differences(case: tuple[str, Options, bool]) -> None:
    model = made(*case, k=K if case[0] == "conve" else 4)  # the largest kernel of ConvE needs K numbers
    s, p, o = (v.requires_grad_() for v in rows(model, 2))
    names, shared = list(model.shared), [tensor.requires_grad_() for tensor in model.shared.values()]

    def scores(method: str):
        return lambda *v: getattr(model.bound(dict(zip(names, v[3:], strict=True))), method)(*v[:3])

    assert torch.autograd.gradcheck(scores("score"), (s, p, o, *shared))
    assert torch.autograd.gradcheck(scores("score_objects"), (s, p, o, *shared))
    assert torch.autograd.gradcheck(scores("score_subjects"), (p, o, s, *shared))


def test_gradients_of_the_outer_comparison_equal_those_of_pairs(model: Model) -> None:
    if not isinstance(model, QueryModel):
        return
    s, p, o = (v.requires_grad_() for v in rows(model, 4))
    weights = torch.arange(16, dtype=torch.float64).reshape(4, 4)
    outer = (model.comparator.outer(model.object_query(s, p), o) * weights).sum()
    pairs = (model.comparator.pairs(model.object_query(s, p).unsqueeze(1), o.unsqueeze(0)) * weights).sum()
    for a, b in zip(torch.autograd.grad(outer, (s, p, o)), torch.autograd.grad(pairs, (s, p, o)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("name", MODELS.names())
@pytest.mark.parametrize("k", [1, 2, 7])
def test_every_embedding_size_works(name: str, k: int) -> None:
    model = bound(name, k=k)
    assert model.score(*rows(model, 3)).shape == (3,)
