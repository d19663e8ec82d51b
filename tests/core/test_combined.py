"""Combiners bound to their model and their evidence, stacks of combiners, and the evidence of a score table."""

import json

import numpy as np
import pytest

from kgcore.combiners.base import Combined, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.joined import Stack
from kgcore.errors import MismatchError
from kgcore.scores.table import Evidence, TableEvidence

NAMES = ("score", "degree", "paths")


def fitted(seed: int) -> BoostedTrees:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(200, 3)).astype(np.float32)
    labels = (values.sum(axis=1) + rng.normal(size=200) > 0).astype(np.float64)
    sample = EvidenceSample(NAMES, values, labels, np.ones(200), rng.integers(0, 3, 200))
    return BoostedTrees(trees=5).fit(sample, rng)


def test_a_stack_is_the_weighted_sum_of_its_members() -> None:
    first, second = fitted(0), fitted(1)
    stack = Stack(("boosted_trees",) * 2, (first, second), (0.5, 0.25), 0.1)
    values = np.random.default_rng(2).normal(size=(20, 3)).astype(np.float32)
    predicates = np.zeros(20, dtype=np.int64)
    z = 0.1 + 0.5 * first.log_odds(values, predicates) + 0.25 * second.log_odds(values, predicates)
    np.testing.assert_allclose(stack.log_odds(values, predicates), z, atol=1e-12)
    constant, parts = stack.contributions(values, predicates)
    np.testing.assert_allclose(constant + parts.sum(axis=1), z, atol=1e-9)
    again = Stack.from_parameters(json.loads(json.dumps(stack.parameters())))
    assert (again.log_odds(values, predicates) == stack.log_odds(values, predicates)).all()


def test_other_evidence_is_refused() -> None:
    combined = Combined("boosted_trees", ("score",), NAMES, "model", fitted(0), "boosted_trees")
    assert Combined.from_json(json.loads(json.dumps(combined.to_json()))).fingerprint() == combined.fingerprint()
    other = Evidence(("score", "paths", "degree"), np.zeros((5, 3), dtype=np.float32))
    with pytest.raises(MismatchError, match="the evidence score, degree, paths, but it is given score, paths"):
        combined.scores(other, np.zeros(5, dtype=np.int64))


def test_evidence_of_a_table_is_found_by_row() -> None:
    evidence = Evidence(("score",), np.array([[10], [30], [40]], np.float32))
    known = TableEvidence(np.array([1, 3, 4]), evidence, ("score",))
    assert known.at(np.array([False, True, False, False, True])).values.ravel().tolist() == [10, 40]
    with pytest.raises(MismatchError, match="1 rows of the score table have no evidence"):
        known.at(np.array([False, True, True, False, False]))
