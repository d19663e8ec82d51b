"""Answer sets: nonconformity and quantile by hand, coverage by simulation."""

import math

import numpy as np
import pytest

from kgcore.answer.conformal import KINDS, Standing, conformal_quantile
from kgcore.errors import InputError


def standing(scores: np.ndarray, answers: np.ndarray) -> Standing:
    own = scores[np.arange(len(scores)), answers]
    level = np.log(np.exp(scores).sum(1))
    return Standing(own, scores.max(1), level, 1 + (scores > own[:, None]).sum(1))


def test_nonconformity_by_hand() -> None:
    found = standing(np.log(np.array([[1.0, 2.0, 5.0]])), np.array([1]))
    expected = {"rank": 2, "score": -math.log(2), "gap": math.log(5 / 2), "softmax": math.log(8 / 2)}
    for kind in KINDS:
        np.testing.assert_allclose(found.nonconformity(kind), [expected[kind]])


def test_an_answer_that_is_no_candidate_is_never_accepted() -> None:
    found = Standing(np.array([-np.inf]), np.array([1.0]), np.array([1.0]), np.array([1]))
    for kind in KINDS:
        assert found.nonconformity(kind) == [np.inf]


def test_the_quantile_by_hand() -> None:
    values = np.arange(1.0, 10.0)  # nine values: the tenth place of ten would need one more
    assert conformal_quantile(values, 0.9) == 9
    assert conformal_quantile(values, 0.5) == 5
    assert conformal_quantile(values, 0.91) == math.inf
    assert conformal_quantile(np.zeros(0), 0.5) == math.inf


def test_wrong_values_are_refused() -> None:
    with pytest.raises(InputError, match="coverage is 1: it must be above 0 and below 1"):
        conformal_quantile(np.zeros(3), 1.0)
    with pytest.raises(InputError, match="the nonconformity is 'loss': it must be one of rank, score, gap, softmax"):
        standing(np.zeros((1, 2)), np.array([0])).nonconformity("loss")


@pytest.mark.parametrize("kind", KINDS)
def test_the_coverage_is_the_chosen_one(rng: np.random.Generator, kind: str) -> None:
    covered = []
    for _ in range(1500):
        scores = rng.normal(size=(50, 30)) * rng.uniform(0.5, 4, size=(50, 1))
        answers = (scores + rng.gumbel(size=scores.shape)).argmax(1)  # answer i with the chance exp f_i / sum exp f
        values = standing(scores, answers).nonconformity(kind)
        covered.append(values[-1] <= conformal_quantile(values[:-1], 0.9))
    error = 3 * np.sqrt(0.09 / len(covered))
    assert 0.9 - error < np.mean(covered) < 0.9 + 1 / 50 + error + (0.08 if kind == "rank" else 0)  # ranks have ties
