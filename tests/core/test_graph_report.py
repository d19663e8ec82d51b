"""The data report: figures of small graphs by hand, and the sentences about them."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.measure.report.graph_findings import (
    Predicate,
    confidence_findings,
    confidences_of,
    findings,
    graph_page,
    shape_of,
)

# 0 likes, 1 liked_by (its inverse), 2 knows (symmetric), 3 in (n-to-1); entities 0-5 are one component, 6 and 7 another
LIKES = [(0, 0, 1), (1, 0, 2), (2, 0, 3), (3, 0, 0), (0, 0, 2)]
TRAIN = [
    *LIKES,
    *((o, 1, s) for s, _, o in LIKES[:4]),
    *((0, 2, 4), (4, 2, 0), (1, 2, 5), (5, 2, 1)),
    *((s, 3, 5) for s in range(4)),
    (6, 3, 7),
]
TEST = [(2, 1, 0), (5, 2, 4), (4, 3, 5)]


def split(rows: list[tuple[int, int, int]]) -> Split:
    return Split(np.array(rows, dtype=np.int64), np.ones(len(rows)))


@pytest.fixture
def graph() -> KnowledgeGraph:
    names = ["likes", "liked_by", "knows", "in <b>"]
    return KnowledgeGraph("toy", [f"e{i}" for i in range(8)], names, split(TRAIN), split(TEST[2:]), split(TEST))


def test_the_shape_of_a_small_graph_by_hand(graph: KnowledgeGraph) -> None:
    shape = shape_of(graph)
    assert shape.components == 2
    assert shape.largest == 6 / 8
    assert shape.single == 2 / 8  # e6 and e7
    assert shape.degrees[2] == 8  # e0: likes 3, liked_by 2, knows 2, in 1
    found = {one.name: one for one in shape.predicates}
    assert found["knows"] == Predicate("knows", 4, 1.0, 1.0, 1.0)
    assert (found["in <b>"].cardinality, found["in <b>"].subjects) == ("n-to-1", 2.5)
    assert found["likes"].symmetry == 0  # e0 likes e2, and e2 does not like e0
    assert [one.facts for one in shape.predicates] == sorted((one.facts for one in shape.predicates), reverse=True)


def test_inverse_predicates_and_what_follows_from_them_are_found(graph: KnowledgeGraph) -> None:
    shape = shape_of(graph)
    assert shape.twins is not None
    names = graph.predicates
    pairs = {(names[one.predicate], names[one.other], one.inverse): one.share for one in shape.twins}
    assert pairs == {("likes", "liked_by", True): 1.0, ("liked_by", "likes", True): 1.0}  # with test: 5 of 5 and 5 of 5
    assert (shape.symmetric, shape.facts, shape.twin_facts) == (1, len(TRAIN) + 3, 14)  # 5 likes, 5 liked_by, 4 knows
    assert shape.leaking == 1  # e2 liked_by e0, as e0 likes e2; e4 does not know e5 in train


def test_a_duplicate_predicate_is_found_and_chance_is_not() -> None:
    rng = np.random.default_rng(0)
    facts = np.unique(rng.integers(0, 30, (120, 2)), axis=0)
    rows = [(int(s), p, int(o)) for s, o in facts for p in (0, 1)]
    others = [(int(s), 2, int(o)) for s, o in np.unique(rng.integers(0, 30, (120, 2)), axis=0)]
    graph = KnowledgeGraph(
        "two",
        [f"e{i}" for i in range(30)],
        ["p", "q", "r"],
        split(rows[:-1] + others),
        split(rows[:1]),
        split(rows[-1:]),
    )
    shape = shape_of(graph)
    assert shape.twins is not None
    assert {(one.predicate, one.other, one.inverse) for one in shape.twins} == {(0, 1, False), (1, 0, False)}
    assert shape.leaking == 1


def test_findings_warn_of_leaks_and_of_labels_that_contradict_train(graph: KnowledgeGraph) -> None:
    shape = shape_of(graph)
    found = {one.title: one for one in findings(graph, shape, {"test_negatives_true_in_train": 3})}
    assert found["Inverse and duplicate predicates"].warns
    assert "1 of 3 true test triples follow" in found["Inverse and duplicate predicates"].figure
    assert found["Labelled negatives that are training facts"].figure == "3"
    assert found["Labelled negatives that are training facts"].warns
    assert not found["Duplicates"].warns
    assert not found["Held-out triples that are training facts"].warns


def test_the_confidences_of_a_small_graph_by_hand(graph: KnowledgeGraph) -> None:
    assert confidences_of(graph) is None
    assert confidence_findings(None) == []
    own = np.full(len(TRAIN), 0.5)
    own[:5] = 0, 1, 1, 1, 0.25  # likes
    sure = replace(graph, train=replace(graph.train, confidences=own))
    sure = replace(sure, test=replace(graph.test, confidences=np.array([0.5, 0.75, 0.5])))
    found = confidences_of(sure)
    assert found is not None
    likes = next(one for one in found.predicates if one.name == "likes")
    assert (likes.facts, likes.mean, likes.zeros, likes.ones) == (5, 0.65, 0.2, 0.6)
    assert likes.deviation == pytest.approx(np.std([0, 1, 1, 1, 0.25]))
    assert (found.values, found.zeros, found.ones) == (4, 1 / 18, 3 / 18)
    assert found.shares[2] == 1 / 18
    assert found.shares[5] == 13 / 18
    assert found.quantiles[1] == 0.5
    assert found.by_relation == pytest.approx(0.25**2 / 3)  # the test triples have other predicates, whose mean is .5
    assert found.constant == pytest.approx(np.mean((np.array([0.5, 0.75, 0.5]) - own.mean()) ** 2))
    html = graph_page(sure, shape_of(sure), confidence_findings(found), found)
    assert "5.6% are 0, and 16.7% are 1" in html
    assert '<td>likes</td><td class="n">5</td><td class="n">0.650</td>' in html
    assert "By predicate" not in graph_page(graph, shape_of(graph), [])


def test_confidences_that_are_hardly_more_than_labels_are_a_warning(graph: KnowledgeGraph) -> None:
    labels = np.arange(len(TRAIN)) % 2.0
    found = confidences_of(replace(graph, train=replace(graph.train, confidences=labels)))
    warnings = [one.title for one in confidence_findings(found) if one.warns]
    assert warnings == ["Confidences of 0 and 1"]


def test_the_page_has_every_finding_and_escapes_names(graph: KnowledgeGraph) -> None:
    shape = shape_of(graph)
    found = findings(graph, shape, {})
    html = graph_page(graph, shape, found)
    assert all(one.title in html for one in found)
    assert "in &lt;b&gt;" in html
    assert "<b>" not in html
    assert "liked_by" in html
