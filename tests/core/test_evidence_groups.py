"""Properties of every registered group of evidence."""

import numpy as np
import pytest
import torch

from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence import table
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.registries import EVIDENCE

ENTITIES, PREDICATES = 12, 3
BY_MODEL = {"score", "other_scores", "cohorts", "fold"}
MINED = {"paths"}  # their confidences keep the triple as a part of other facts' paths


def graph_with(facts: np.ndarray) -> KnowledgeGraph:
    split, nothing = Split(facts, np.ones(len(facts))), Split(facts[:0], np.zeros(0))
    names = [f"e{i}" for i in range(ENTITIES)], [f"p{i}" for i in range(PREDICATES)]
    return KnowledgeGraph("made", *names, split, nothing, nothing)


def source_of(facts: np.ndarray) -> Source:
    rng = np.random.default_rng(0)
    tables = (torch.from_numpy(rng.normal(size=(rows, 8)).astype(np.float32)) for rows in (ENTITIES, PREDICATES))
    return Source(graph_with(facts), TrainedModel("transe", 8, Embeddings(*tables)))


def random_facts(seed: int, count: int = 60) -> np.ndarray:
    """Draw facts, some of them twice or with the same subject and object; low numbers are frequent."""
    rng = np.random.default_rng(seed)
    ends = np.minimum(rng.geometric(0.25, size=(count, 2)) - 1, ENTITIES - 1)
    return np.stack([ends[:, 0], rng.integers(PREDICATES, size=count), ends[:, 1]], axis=1)


def every_triple() -> np.ndarray:
    return np.stack(np.unravel_index(np.arange(ENTITIES * PREDICATES * ENTITIES), (ENTITIES, PREDICATES, ENTITIES)), 1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", sorted(set(EVIDENCE.names()) - BY_MODEL - MINED))
def test_a_training_fact_is_left_out_of_its_own_evidence(name: str, seed: int) -> None:
    facts = np.unique(random_facts(seed), axis=0)
    group = EVIDENCE.get(name).of(source_of(facts))
    for row in range(len(facts)):
        rest = EVIDENCE.get(name).of(source_of(np.delete(facts, row, axis=0)))
        fact = facts[row : row + 1]
        np.testing.assert_array_equal(group.values(fact), rest.values(fact), err_msg=f"{name} {fact}")


def test_a_training_fact_is_no_path_of_its_own() -> None:
    facts = np.unique(random_facts(0), axis=0)
    paths = EVIDENCE.get("paths")
    group, counts = paths.of(source_of(facts)), [name.endswith("_count") for name in paths.of(source_of(facts)).names]
    for row in range(len(facts)):
        rest, fact = paths.of(source_of(np.delete(facts, row, axis=0))), facts[row : row + 1]
        np.testing.assert_array_equal(group.values(fact)[:, counts], rest.values(fact)[:, counts])


@pytest.mark.parametrize("name", sorted(EVIDENCE.names()))
def test_values_have_one_column_a_name_and_do_not_depend_on_the_block(name: str) -> None:
    group = EVIDENCE.get(name).of(source_of(random_facts(0)))
    triples = every_triple()
    values = group.values(triples)
    assert (values.shape, values.dtype) == ((len(triples), len(group.names)), np.float64)
    assert not np.isinf(values).any()
    order = np.random.default_rng(1).permutation(len(triples))
    np.testing.assert_array_equal(group.values(triples[order]), values[order])
    for rows in (slice(0, 1), slice(5, 12), slice(0, 0)):
        np.testing.assert_array_equal(group.values(triples[rows]), values[rows])


@pytest.mark.parametrize("name", sorted(EVIDENCE.names()))
def test_held_out_splits_and_repeated_facts_change_nothing(name: str) -> None:
    facts = np.unique(random_facts(2), axis=0)
    source = source_of(facts)
    shuffled = np.random.default_rng(2).permutation(np.concatenate([facts, facts[:20]]))
    graph = graph_with(shuffled)
    other = KnowledgeGraph(
        "other", graph.entities, graph.predicates, graph.train, *[Split(every_triple(), np.ones(432))] * 2
    )
    groups = [EVIDENCE.get(name).of(one) for one in (source, Source(other, source.trained))]
    np.testing.assert_array_equal(*(group.values(every_triple()) for group in groups))


@pytest.mark.parametrize("name", sorted(EVIDENCE.names()))
def test_a_graph_with_one_fact_or_without_facts_has_evidence(name: str) -> None:
    for count in (0, 1):
        group = EVIDENCE.get(name).of(source_of(random_facts(3)[:count]))
        assert group.values(every_triple()).shape == (432, len(group.names))


@pytest.mark.parametrize("threads", [1, 4])
def test_blocks_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    features, triples = Features.of(source_of(random_facts(0)), EVIDENCE.names()), every_triple()
    whole = features.evidence(triples)
    monkeypatch.setattr(table, "ROWS_AT_ONCE", 50 * threads)
    monkeypatch.setattr(table, "FEWEST_AT_ONCE", 1)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        np.testing.assert_array_equal(features.evidence(triples).values, whole.values)
    finally:
        torch.set_num_threads(before)


def test_names_are_unique_and_features_are_columns_in_their_order() -> None:
    source, triples = source_of(random_facts(0)), every_triple()
    features = Features.of(source, EVIDENCE.names())
    evidence = features.evidence(triples)
    assert len(set(evidence.names)) == len(evidence.names) == evidence.values.shape[1]
    assert evidence.values.dtype == np.float32
    start = 0
    for group in features.groups.values():
        columns = evidence.values[:, start : start + len(group.names)]
        np.testing.assert_array_equal(columns, group.values(triples).astype(np.float32))
        start += len(group.names)
