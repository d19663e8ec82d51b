"""What is computed block by block, for large graphs, is what one block gives, wherever the blocks end."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from kgcore import arrays
from kgcore.config import PrepareConfig
from kgcore.data import graph as graphs
from kgcore.data.datasets import read, twins
from kgcore.data.datasets.prepare import Prepared, read_dataset
from kgcore.data.formats import text
from kgcore.data.graph import Ends, FactCounts, TripleIndex, components_of
from kgcore.measure.report.graph_findings import data_report

E, R = 9, 3
triples = st.lists(
    st.tuples(st.integers(0, E - 1), st.integers(0, R - 1), st.integers(0, E - 1)), min_size=1, max_size=60
)
numbers = st.lists(st.integers(0, 12), max_size=60)


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 7)
        patch.setattr(graphs, "EDGES", 5)
        patch.setattr(graphs, "OBJECTS", 11)
        yield


@given(numbers)
def test_values_are_sorted_counted_and_found(values: list[int]) -> None:
    for kind in (np.int32, np.int64):
        given_values = np.array(values, dtype=kind)
        assert arrays.sorted_distinct(given_values).tolist() == sorted(set(values))
        assert arrays.counted(given_values, 13).tolist() == [values.count(number) for number in range(13)]
        first = [values.index(number) if number in values else len(values) for number in range(13)]
        assert arrays.first_places(given_values, 13).tolist() == first
        assert arrays.taken(np.arange(13) * 2, given_values).tolist() == [2 * value for value in values]
        assert arrays.repeated(given_values.copy()) == sum(values.count(value) > 1 for value in values)
        assert given_values.tolist() == values


@given(numbers, st.integers(0, 2**20))
def test_the_first_fact_of_a_unit_has_a_random_place_and_the_others_follow_it(units: list[int], seed: int) -> None:
    order = np.random.default_rng(seed).permutation(len(units)).tolist()
    expected = [
        f for first in order if units.index(units[first]) == first for f, u in enumerate(units) if u == units[first]
    ]
    found = twins.order_of_units(np.array(units, dtype=np.int32), np.random.default_rng(seed))
    assert found.tolist() == expected


@given(triples)
def test_facts_are_counted_and_connected(facts: list[tuple[int, int, int]]) -> None:
    given_facts, distinct = np.array(facts), sorted(set(facts))
    index = TripleIndex([given_facts[:3], given_facts[3:].astype(np.int32)], E, R)
    assert np.concatenate([*index.blocks()]).tolist() == [[*fact] for fact in distinct]
    counts = FactCounts.of(index)
    assert counts.predicates.tolist() == [sum(p == q for _, q, _ in distinct) for p in range(R)]
    assert counts.loops.tolist() == [sum(p == q and s == o for s, q, o in distinct) for p in range(R)]
    assert counts.degrees.tolist() == [sum((s == e) + (o == e) for s, _, o in distinct) for e in range(E)]
    assert counts.chosen(lambda part: part[:, 0] == part[:, 2]).tolist() == [[*f] for f in distinct if f[0] == f[2]]
    for column in (0, 2):
        ends = (Ends.of_objects if column else Ends.of_subjects)(index)
        sets = [{fact[column] for fact in facts if fact[1] == p} for p in range(R)]
        assert ends.numbers.tolist() == [len(found) for found in sets]
        assert ends.largest.tolist() == [max(found, default=0) for found in sets]
    links = coo_matrix((np.ones(len(facts)), (given_facts[:, 0], given_facts[:, 2])), shape=(E, E))
    expected = connected_components(links, directed=False)[1]
    found = components_of(given_facts, E)
    assert len(set(zip(found.tolist(), expected.tolist(), strict=True))) == len({*found}) == len({*expected})


def _prepared(path: Path, split: str) -> tuple[Prepared, str, list[str]]:
    prepared = read_dataset(PrepareConfig(dataset=str(path), split=split), path.parent)
    return (prepared, *data_report(prepared, split))


@pytest.mark.parametrize("split", ["random", "time:year", "group:year", "cold:object"])
def test_a_prepared_graph_does_not_depend_on_the_size_of_blocks(split: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [(f"e{s}", f"r{p}", f"e{o}", y) for s, p, o, y in rng.integers(0, [60, 3, 60, 25], (900, 4)).tolist()]
    rows += [(o, "inverse", s, y) for s, p, o, y in rows if p == "r0"] + rows[:50]
    (tmp_path / "mine.tsv").write_text("\n".join("\t".join(map(str, row)) for row in [("s", "p", "o", "year"), *rows]))
    small, page, notes = _prepared(tmp_path / "mine.tsv", split)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 2**20)
        patch.setattr(read, "PIECE", 101)
        patch.setattr(text, "BLOCK_BYTES", 700)
        patch.setattr(twins, "PART", 40)
        large, *report = _prepared(tmp_path / "mine.tsv", split)
    assert small.graph.fingerprint() == large.graph.fingerprint()
    assert (small.counts, small.drawn, page, notes) == (large.counts, large.drawn, *report)
