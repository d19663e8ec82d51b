"""The exam: made from the data alone, divided by a hash, weighted by relation, with eras of field labels."""

from hashlib import blake2b
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kgcore.config.base import SplitRule
from kgcore.data.datasets.labels import for_exam
from kgcore.data.datasets.read import COLUMNS
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.wings.monitoring.exam import TEST, Exam, Paper, first_exam, read_exam, write_exam
from tests.core.unused import unused_triples


def without_negatives(graph: KnowledgeGraph) -> KnowledgeGraph:
    """Return the graph without the labelled negatives of valid and test."""
    valid, test = (Split(split.positives, np.ones(len(split.positives))) for split in (graph.valid, graph.test))
    return KnowledgeGraph(graph.name, graph.entities, graph.predicates, graph.train, valid, test)


def field_labels(graph: KnowledgeGraph, count: int) -> pd.DataFrame:
    """Return new triples as `read_labels` does; half of them are true."""
    return graph.names_of(unused_triples(graph, count)).assign(label=np.arange(count) % 2 * 1.0)


def test_a_triple_goes_where_its_own_hash_sends_it() -> None:
    frame = pd.DataFrame({"subject": ["a", "ä", "b"], "predicate": ["p"] * 3, "object": ["c", "d", "e"]})
    texts = ["a\tp\tc", "ä\tp\td", "b\tp\te"]
    expected = [blake2b(text.encode(), digest_size=8).digest()[0] < 128 for text in texts]
    assert for_exam(frame, 0.5).tolist() == expected
    assert for_exam(frame.iloc[::-1], 0.5).tolist() == expected[::-1]
    assert not for_exam(frame, 0).any()
    with pytest.raises(InputError, match="exam_share is 1: it must be at least 0 and below 1"):
        for_exam(frame, 1)


def test_the_share_of_the_exam_is_kept_and_grows_monotonically() -> None:
    frame = pd.DataFrame({"subject": [f"s{n}" for n in range(5000)], "predicate": "p", "object": "o"})
    third, half = for_exam(frame, 1 / 3), for_exam(frame, 0.5)
    assert third.mean() == pytest.approx(1 / 3, abs=0.02)
    assert half.mean() == pytest.approx(0.5, abs=0.02)
    assert (half | ~third).all()


def test_a_labelled_test_split_is_the_exam(small_graph: KnowledgeGraph) -> None:
    exam = first_exam(small_graph, "small")
    paper = exam.paper(100)
    assert (paper.synthetic, paper.era, len(paper)) == (False, TEST, len(small_graph.test))
    assert (small_graph.number(paper.names)[0] == small_graph.test.triples).all()
    _, rows = paper.rows(np.ones(len(paper), dtype=bool), 0.1)
    assert rows.base_rate == pytest.approx(0.1)
    chosen, rows = paper.rows(np.arange(len(paper)) % 2 == 0, None)
    assert (rows.weights == 1).all()
    assert len(rows) == chosen.sum() == (len(paper) + 1) // 2


def test_the_exam_of_a_split_by_cold_entities_keeps_them(small_graph: KnowledgeGraph) -> None:
    graph = without_negatives(small_graph)
    paper = first_exam(graph, "small", SplitRule.of("cold:object")).paper(100)
    triples, false = graph.number(paper.names)[0], paper.labels == 0
    assert set(triples[false, 2].tolist()) <= set(graph.test.positives[:, 2].tolist())
    assert len({(c, o) for c, o in zip(paper.clusters.tolist(), triples[:, 2].tolist(), strict=True)}) == len(
        set(triples[:, 2].tolist())
    )


def test_corruptions_of_the_exam_are_new_and_belong_to_their_positive(small_graph: KnowledgeGraph) -> None:
    graph = without_negatives(small_graph)
    paper = first_exam(graph, "small").paper(100)
    assert paper.synthetic
    assert paper.digest == first_exam(graph, "small").paper(100).digest  # always the same one
    triples, false = graph.number(paper.names)[0], paper.labels == 0
    assert not graph.all_known.contains(triples[false]).any()
    positive = dict(zip(paper.clusters[~false], triples[~false], strict=True))
    assert all(
        (triple != positive[cluster]).sum() == 1
        for cluster, triple in zip(paper.clusters[false], triples[false], strict=True)
    )


def test_corruptions_are_weighted_to_the_base_rate_in_every_relation() -> None:
    names = pd.DataFrame({"subject": "s", "predicate": list("ppppqqqr"), "object": "o"})
    labels = np.array([1, 0, 0, 0, 1, 1, 0, 1.0])
    paper = Paper(names, labels, np.arange(8), TEST, True)
    chosen, rows = paper.rows(np.ones(8, dtype=bool), 0.2)
    assert chosen.tolist() == [True] * 7 + [False]  # r has no corruption
    for start, stop in ((0, 4), (4, 7)):
        assert np.average(rows.labels[start:stop], weights=rows.weights[start:stop]) == pytest.approx(0.2)
    assert rows.weights[1] / rows.weights[0] == pytest.approx(4 / 3)
    assert rows.weights[6] / rows.weights[4] == pytest.approx(8)


def test_field_labels_make_a_version_and_replace_the_test_split_when_they_are_enough(
    small_graph: KnowledgeGraph,
) -> None:
    exam, labels = first_exam(small_graph, "small"), field_labels(small_graph, 60)
    own = int(for_exam(labels, 0.5).sum())
    more = exam.with_labels(labels, 0.5, small_graph)
    assert (more.version, more.field_labels()) == (2, own)
    assert more.with_labels(labels.sample(frac=1, random_state=1), 0.5, small_graph) is more
    assert more.paper(own + 1).era == TEST
    paper = more.paper(own)
    assert (paper.era, paper.synthetic, len(paper)) == (1, False, own)


def test_labels_that_chose_a_champion_judge_until_there_are_enough_new_ones(small_graph: KnowledgeGraph) -> None:
    labels = field_labels(small_graph, 120)
    first, later = labels[:60], labels
    exam = first_exam(small_graph, "small").with_labels(first, 0.5, small_graph)
    old = exam.field_labels()
    exam = exam.next_era()
    assert exam.paper(20).era == 1  # not the test split, which shows the old world
    exam = exam.with_labels(later, 0.5, small_graph)  # the file has grown: the old labels stay in their era
    assert exam.field_labels() == int(for_exam(labels, 0.5).sum()) - old
    assert exam.paper(20).era == 2
    old_names = exam.questions.loc[exam.questions["era"] == 1, list(COLUMNS)]
    assert not len(exam.paper(20).names.merge(old_names))


def test_known_triples_are_no_field_labels_and_a_corrected_label_counts(small_graph: KnowledgeGraph) -> None:
    exam = first_exam(small_graph, "small")
    held = small_graph.names_of(small_graph.valid.triples).assign(label=small_graph.valid.labels)
    assert exam.with_labels(held, 0.99, small_graph) is exam
    labels = field_labels(small_graph, 30)
    made = exam.with_labels(labels, 0.5, small_graph)
    turned = made.with_labels(labels.assign(label=1 - labels["label"]), 0.5, small_graph)
    assert turned.version == 3
    assert turned.field_labels() == made.field_labels()
    one, other = (exam.questions.loc[exam.questions["era"] == 1, "label"].to_numpy() for exam in (made, turned))
    assert (other == 1 - one).all()


def test_a_new_test_split_keeps_the_field_labels(small_graph: KnowledgeGraph) -> None:
    exam = first_exam(small_graph, "small").with_labels(field_labels(small_graph, 60), 0.5, small_graph)
    other = without_negatives(small_graph)
    made = exam.with_test_of(other)
    assert (made.version, made.synthetic, made.field_labels()) == (3, True, exam.field_labels())
    field = made.questions[made.questions["era"] != TEST]
    assert not set(field["cluster"]) & set(made.questions[made.questions["era"] == TEST]["cluster"])


def test_the_file_keeps_the_exam(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    exam = first_exam(small_graph, "small").with_labels(field_labels(small_graph, 60), 0.5, small_graph)
    write_exam(tmp_path / "exam.parquet", exam)
    back: Exam = read_exam(tmp_path / "exam.parquet")
    assert (back.version, back.test, back.era, back.synthetic) == (exam.version, exam.test, exam.era, exam.synthetic)
    assert back.paper(20).digest == exam.paper(20).digest
    pd.testing.assert_frame_equal(back.questions, exam.questions)
