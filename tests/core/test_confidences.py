"""Triples with confidences: reading, fingerprints, training and the exam."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from kgcore.config import TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.labels import with_labels
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.training.loop import train, with_inverses
from kgcore.errors import InputError
from kgcore.storage.folders import read_graph, write_graph
from kgcore.wings.monitoring.exam import first_exam, read_exam, write_exam
from tests.core.unused import unused_triples

CPU = torch.device("cpu")
ROWS = [(f"e{i % 9}", f"r{i % 2}", f"e{(2 * i + 1) % 9}", f"{0.1 + 0.01 * i:.2f}") for i in range(80)]


def text_of(rows: list[tuple[str, ...]], separator: str = "\t") -> str:
    return "".join(separator.join(row) + "\n" for row in rows)


def read(place: Path, confidence: str = "4", columns: tuple[str, ...] = ()) -> Prepared:
    spec = find_dataset(str(place))
    assert spec.folder is not None
    return prepare(spec, spec.folder, columns, confidence=confidence)


def confidences_of(graph: KnowledgeGraph) -> dict[tuple[str, ...], float]:
    found = {}
    for split in (graph.train, graph.valid, graph.test):
        names = graph.names_of(split.triples).itertuples(index=False, name=None)
        found |= dict(zip(names, split.truth.tolist(), strict=True))
    return found


def test_a_confidence_is_read_by_position_and_by_name_and_the_highest_counts(tmp_path: Path) -> None:
    expected: dict[tuple[str, ...], float] = {}
    for *names, confidence in ROWS:
        expected[tuple(names)] = max(expected.get(tuple(names), 0.0), float(confidence))
    (tmp_path / "plain.tsv").write_text(text_of(ROWS))
    (tmp_path / "named.csv").write_text(
        text_of([("w", "tail", "head", "rel"), *((c, o, s, p) for s, p, o, c in ROWS)], ",")
    )
    columns = [[row[place] for row in ROWS] for place in range(3)]
    table = pa.table([*columns, [float(row[3]) for row in ROWS]], names=["s", "p", "o", "w"])
    pq.write_table(table, tmp_path / "named.parquet")
    graphs = [
        read(tmp_path / "plain.tsv").graph,
        read(tmp_path / "named.csv", "w").graph,
        read(tmp_path / "named.parquet", "4").graph,
    ]
    for graph in graphs:
        assert confidences_of(graph) == expected
        assert graph.fingerprint() == replace(graphs[0], name=graph.name).fingerprint()
    counts = read(tmp_path / "plain.tsv").counts
    assert counts["drawn_from_duplicates"] == len(ROWS) - len(expected)


def test_confidences_are_part_of_the_fingerprints_and_of_the_stored_graph(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text(text_of(ROWS))
    graph = read(tmp_path / "mine.tsv").graph
    plain = replace(
        graph, **{name: replace(getattr(graph, name), confidences=None) for name in ("train", "valid", "test")}
    )
    for kind in ("fingerprint", "training_fingerprint", "test_fingerprint"):
        assert getattr(graph, kind)() != getattr(plain, kind)()
    write_graph(tmp_path / "graph", graph)
    assert read_graph(tmp_path / "graph").fingerprint() == graph.fingerprint()
    twice = with_inverses(graph).train
    assert twice.truth.tolist() == [*graph.train.truth, *graph.train.truth]


def test_confidences_of_1_are_no_confidences(tmp_path: Path) -> None:
    (tmp_path / "with.tsv").write_text(text_of([(*row[:3], "1.0") for row in ROWS]))
    (tmp_path / "without.tsv").write_text(text_of([row[:3] for row in ROWS]))
    found, plain = read(tmp_path / "with.tsv").graph, read(tmp_path / "without.tsv", "").graph
    assert found.valid.confidences is None
    assert found.fingerprint() == plain.fingerprint()


@pytest.mark.parametrize(
    ("rows", "confidence", "message"),
    [
        ([*ROWS, ("e0", "r0", "e1", "1.2")], "4", "line 81: confidence is '1.2': it must be a number from 0 to 1"),
        ([*ROWS, ("e0", "r0", "e1", "-0.1")], "4", "line 81: confidence is '-0.1': it must be a number from 0 to 1"),
        ([*ROWS, ("e0", "r0", "e1", "high")], "4", "line 81: confidence is 'high': it must be a number from 0 to 1"),
        ([*ROWS, ("e0", "r0", "e1", "nan")], "4", "line 81: confidence is 'nan': it must be a number from 0 to 1"),
        ([*ROWS, ("e0", "r0", "e1", "")], "4", "line 81: confidence is missing: it must be a number from 0 to 1"),
        (ROWS, "", "line 1: the fourth column is 0.10, which is no label: give --confidence 4 if it is a confidence"),
        (ROWS, "5", "has no column 5: --confidence must be a position from 1 to 4"),
        (ROWS, "w", "has no column w: --confidence must be a position from 1 to 4"),
        ([("s", "p", "o", "w"), *ROWS], "x", "--confidence must be one of s, p, o, w, or a position from 1 to 4"),
        (ROWS, "2", "--confidence 2 is the column of the predicate: it must be a column of numbers from 0 to 1"),
        ([("s", "p", "o", "label", "w"), ("a", "p", "b", "1", "0.5")], "w", "a triple has a label or a confidence"),
    ],
)
def test_a_wrong_confidence_is_refused_in_a_sentence(
    tmp_path: Path, rows: list[tuple[str, ...]], confidence: str, message: str
) -> None:
    (tmp_path / "mine.tsv").write_text(text_of(rows))
    with pytest.raises(InputError) as caught:
        read(tmp_path / "mine.tsv", confidence)
    assert message in str(caught.value)
    assert str(tmp_path / "mine.tsv") in str(caught.value)


def test_every_file_must_have_the_column(tmp_path: Path) -> None:
    for name, rows in (("train", ROWS[:60]), ("valid", ROWS[60:70]), ("test", [row[:3] for row in ROWS[70:]])):
        (tmp_path / f"{name}.txt").write_text(text_of(rows))
    with pytest.raises(InputError, match=r"test\.txt has no column 4: --confidence must be a position from 1 to 3"):
        read(tmp_path)
    (tmp_path / "mine.nt").write_text("<http://x.org/a> <http://x.org/p> <http://x.org/b> .\n")
    with pytest.raises(InputError, match=r"is RDF, and its triples have no columns: leave out --confidence"):
        read(tmp_path / "mine.nt")


@pytest.fixture(scope="module")
def graded() -> KnowledgeGraph:
    """Return a graph in which the predicate and the parities of the entities decide the confidence."""
    rng = np.random.default_rng(0)
    triples = np.unique(rng.integers(0, [40, 2, 40], (900, 3)), axis=0)
    c = 0.1 + 0.4 * triples[:, 1] + 0.2 * (triples[:, [0, 2]] % 2).sum(axis=1)
    mixed = rng.permutation(len(triples))
    split = Split(triples, np.ones(len(triples)), c)
    cut = len(triples) * 2 // 3
    parts = [split.part(np.sort(rows)) for rows in (mixed[:cut], mixed[cut:-100], mixed[-100:])]
    return KnowledgeGraph("graded", [f"e{i}" for i in range(40)], ["r0", "r1"], *parts)


def test_training_orders_by_confidence(graded: KnowledgeGraph) -> None:
    config = TrainConfig(
        model="distmult", loss="confidence", k=8, epochs=20, batch_size=64, chunk_size=16, learning_rate=0.05
    )
    trained = train(graded, config, CPU, compiled=False).model
    scores, c = trained.score(graded.test.triples), graded.test.truth
    assert np.corrcoef(scores, c)[0, 1] > 0.7
    plain = replace(graded, train=replace(graded.train, confidences=None))
    blind = train(plain, config, CPU, compiled=False).model
    assert np.corrcoef(blind.score(graded.test.triples), c)[0, 1] < 0.5


def test_training_with_confidences_of_1_is_training_without(graded: KnowledgeGraph) -> None:
    config = TrainConfig(model="complex", loss="nll", k=4, epochs=1, batch_size=64, chunk_size=16)
    certain = replace(graded.train, confidences=np.ones(len(graded.train)))
    plain = replace(graded, train=replace(certain, confidences=None))
    found, expected = (train(g, config, CPU, compiled=False).model for g in (replace(graded, train=certain), plain))
    np.testing.assert_allclose(
        found.score(graded.test.triples), expected.score(graded.test.triples), rtol=1e-5, atol=1e-6
    )


def test_a_label_counts_as_the_confidence_1_or_0(graded: KnowledgeGraph) -> None:
    """Among the labels is a validation triple, which gets its new label."""
    new = unused_triples(graded, 6)
    names = graded.names_of(np.r_[new, graded.valid.triples[:1]])
    found = with_labels(graded, names.assign(label=[1.0, 0, 1, 0, 1, 0, 0])).graph
    assert found.labelled_base_rate is None
    assert len(found.valid) == len(graded.valid) + 6
    truth = confidences_of(replace(found, train=found.valid, test=found.valid))
    expected = confidences_of(replace(graded, train=graded.valid, test=graded.valid))
    rows = [tuple(row) for row in names.itertuples(index=False)]
    assert truth == expected | dict(zip(rows, [1.0, 0, 1, 0, 1, 0, 0], strict=True))
    alone = with_labels(graded, names.assign(label=[1.0, 0, 1, 0, 1, 0, 0]), instead=True).graph
    assert alone.valid.confidences is None


def test_an_exam_has_two_rows_for_a_confidence(graded: KnowledgeGraph, tmp_path: Path) -> None:
    exam = first_exam(graded, "graded")
    write_exam(tmp_path / "exam.parquet", exam)
    paper = read_exam(tmp_path / "exam.parquet").paper(50)
    chosen, rows = paper.rows(np.ones(len(paper), dtype=bool), None)
    assert not paper.synthetic
    assert chosen.all()
    assert rows.triples == len(graded.test)
    assert rows.base_rate == pytest.approx(graded.test.truth.mean())
    assert paper.digest == exam.paper(50).digest
