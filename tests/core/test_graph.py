"""The triple index, compared with Python sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.errors import InputError

E, R = 7, 3
triple = st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1))


@given(st.lists(triple, max_size=40), st.lists(triple, min_size=1, max_size=40))
def test_an_index_is_a_set(known: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    index = TripleIndex(np.array(known, dtype=np.int64).reshape(-1, 3), E, R)
    assert [tuple(triple) for triple in index.triples.tolist()] == sorted(set(known))
    assert len(index) == len(set(known))
    assert index.contains(np.array(asked)).tolist() == [t in set(known) for t in asked]


@given(st.lists(triple, min_size=1, max_size=60), st.lists(triple, min_size=1, max_size=20))
def test_an_index_finds_all_objects_and_subjects(known, asked) -> None:
    index, queries = TripleIndex(np.array(known), E, R), np.array(asked)
    row, entity = index.objects(queries[:, 0], queries[:, 1])
    expected = {(i, o) for i, (s, p, _) in enumerate(asked) for s2, p2, o in known if (s, p) == (s2, p2)}
    assert set(zip(row.tolist(), entity.tolist(), strict=True)) == expected
    row, entity = index.subjects(queries[:, 1], queries[:, 2])
    expected = {(i, s) for i, (_, p, o) in enumerate(asked) for s, p2, o2 in known if (p, o) == (p2, o2)}
    assert set(zip(row.tolist(), entity.tolist(), strict=True)) == expected


def test_a_graph_too_large_for_its_keys_is_refused() -> None:
    with pytest.raises(InputError, match=r"entities x predicates x entities must be below 2\^63"):
        TripleIndex(np.zeros((1, 3)), 10**9, 10**3)


def test_known_facts_never_hold_test_triples(small_graph: KnowledgeGraph) -> None:
    assert not small_graph.known.contains(small_graph.test.positives).any()
    assert small_graph.known.contains(small_graph.valid.positives).all()
    assert not small_graph.known.contains(small_graph.valid.negatives).any()
    assert small_graph.all_known.contains(small_graph.test.positives).all()
