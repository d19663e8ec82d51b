"""Reliability by what training knows: groups by hand, and the metrics of a group."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from kgcore.measure.evaluation.groups import WITH_PREDICATE, KnowledgeGroup, reliability_by_knowledge
from kgcore.measure.evaluation.predictions import Predictions
from tests.core.drawn import graph_of
from tests.core.judged import predictions
from tests.core.samples import figure

# entity 0 has 4 facts, 1 has 3, 2 and 3 have 2, 4 has 1; entity 5 has none
TRAIN = [(0, 0, 1), (0, 0, 2), (1, 0, 3), (0, 1, 4), (1, 1, 0), (2, 1, 3)]
TEST = np.array([(0, 0, 3), (1, 0, 4), (4, 0, 5), (2, 1, 0), (3, 1, 1), (0, 1, 2)])


def judged(q: np.ndarray, y: np.ndarray) -> Predictions:
    return replace(predictions({"a": q}, y), triples=TEST)


def test_groups_by_hand() -> None:
    y = np.array([1.0, 1, 1, 1, 0, 0])
    q = np.linspace(0.1, 0.9, 6)
    groups = reliability_by_knowledge(judged(q, y), graph_of(TRAIN, 6), 10, 0.5)
    found = {group.name: group for group in groups}
    both, one, neither = (found[WITH_PREDICATE[number]] for number in (2, 1, 0))
    assert (both.triples, one.triples, neither.triples) == (2, 2, 2)  # rows 0 and 3; 1 and 5; 2 and 4
    assert (both.true, one.true, neither.true) == (2, 1, 1)
    assert (both.observed, one.observed) == (1, 0.5)
    assert one.low < 0.5 < one.high
    assert one.calibrators["a"]["predicted"] == pytest.approx((q[1] + q[5]) / 2)
    assert one.calibrators["a"]["brier"] == pytest.approx(((1 - q[1]) ** 2 + q[5] ** 2) / 2)
    assert one.calibrators["a"]["auroc"] == 0
    assert "auroc" not in both.calibrators["a"]  # all are true
    degrees = [group for group in groups if group.name.startswith("the rarer")]
    # the rarer entities have 2, 1, 0, 2, 2 and 2 facts; of the true rows 2, 1, 0 and 2
    assert [(group.name, group.triples) for group in degrees] == [
        ("the rarer entity has at most 1 training facts", 2),
        ("the rarer entity has 2 training facts", 4),
    ]
    assert all(json.loads(json.dumps(asdict(g))) == asdict(KnowledgeGroup(**asdict(g))) for g in groups)


def test_every_triple_is_in_a_group_of_each_kind(rng: np.random.Generator) -> None:
    triples = rng.integers(0, 30, (500, 3)) % [30, 3, 30]
    y, q = (rng.random(500) < 0.5).astype(float), rng.random(500)
    graph = graph_of([tuple(row) for row in (rng.integers(0, 30, (300, 3)) % [30, 3, 30]).tolist()], 30)
    groups = reliability_by_knowledge(replace(predictions({"a": q}, y), triples=triples), graph, 10, 0.5)
    for start in ("train has", "the rarer"):
        assert sum(group.triples for group in groups if group.name.startswith(start)) == 500
        assert sum(group.true for group in groups if group.name.startswith(start)) == y.sum()
    known = (
        {tuple(row) for row in graph.train.triples[:, :2].tolist()},
        {tuple(r) for r in graph.train.triples[:, 1:].tolist()},
    )
    rows = np.array([(s, p) in known[0] and (p, o) in known[1] for s, p, o in triples.tolist()])
    both = next(group for group in groups if group.name == WITH_PREDICATE[2])
    assert both.calibrators["a"]["debiased_rmsce"] == pytest.approx(figure("debiased_rmsce")(q[rows], y[rows]))
