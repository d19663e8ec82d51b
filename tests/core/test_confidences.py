"""Triples with confidences: reading, soft labels, training, metrics and baselines."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgcore.calibration.audit import score_audit
from kgcore.calibration.baselines.constant import Constant, ConstantByRelation
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample, soft_sample, synthetic_sample
from kgcore.config import TrainConfig
from kgcore.datasets.base import find_dataset
from kgcore.datasets.prepare import Prepared, prepare
from kgcore.errors import InputError
from kgcore.evaluation.evaluate import evaluate
from kgcore.graph import KnowledgeGraph, Split
from kgcore.metrics.base import Sample
from kgcore.metrics.classification import accuracy, best_threshold
from kgcore.metrics.corp import decompose_brier
from kgcore.metrics.equal_mass import debiased_rmsce
from kgcore.metrics.proper import brier, log_loss
from kgcore.metrics.tally import SortedRows
from kgcore.monitoring.exam import first_exam
from kgcore.monitoring.exam_file import read_exam, write_exam
from kgcore.registries import CALIBRATORS, LOSSES, METRICS
from kgcore.registry import build
from kgcore.storage.graph import read_graph, write_graph
from kgcore.training.inverse import with_inverses
from kgcore.training.loop import train
from tests.core.judged import FAST, predictions

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


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=4, max_size=30))
def test_a_soft_label_is_weighted_duplicates(quarters: list[float]) -> None:
    """Compare with every row repeated four times, with a share of labels 1 that is its confidence.

    Calibrators with a prior count rows, so they agree only on large samples.
    """
    c = np.array([*quarters, 0.25])
    scores = np.arange(len(c)) * 0.7 % 3
    found = soft_sample(scores, c)
    times = np.r_[4 * c, 4 - 4 * c].astype(int)
    repeated = ground_truth_sample(np.repeat(np.r_[scores, scores], times), np.repeat(np.r_[c * 0 + 1, c * 0], times))
    assert found.base_rate == pytest.approx(c.mean())
    for name in ("isotonic", "histogram"):
        one, other = (CALIBRATORS.get(name)().fit_sample(sample).calibrate(scores) for sample in (found, repeated))
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_a_calibrator_of_soft_labels_has_the_lowest_cross_entropy(rng: np.random.Generator) -> None:
    scores = rng.normal(size=400)
    c = 1 / (1 + np.exp(-1.5 * scores - 0.4 + 0.3 * rng.normal(size=400)))
    q = CALIBRATORS.get("isotonic")().fit_sample(soft_sample(scores, c)).calibrate(scores)
    order = np.argsort(scores)
    from sklearn.isotonic import IsotonicRegression

    np.testing.assert_allclose(q[order], IsotonicRegression().fit_transform(scores[order], c[order]), atol=1e-9)


def test_certain_confidences_make_the_samples_of_labels(rng: np.random.Generator) -> None:
    scores, labels = rng.normal(size=50), rng.integers(0, 2, 50).astype(float)
    soft, hard = soft_sample(scores, labels), ground_truth_sample(scores, labels)
    order = np.lexsort((np.arange(50), -labels))
    np.testing.assert_array_equal(soft.scores, hard.scores[order])
    np.testing.assert_array_equal(soft.weights, hard.weights[order])
    predicates = (np.arange(50) % 3, np.arange(100) % 3)
    made = [
        synthetic_sample(scores, rng.normal(size=100) * 0, 0.1, predicates=predicates, confidences=c)
        for c in (None, np.ones(50))
    ]
    np.testing.assert_array_equal(made[0].weights, made[1].weights)


def test_a_positive_counts_with_its_confidence_and_the_base_rate_stays(rng: np.random.Generator) -> None:
    scores, c, predicates = rng.normal(size=60), rng.uniform(0.1, 1, 60), np.arange(60) % 3
    made = synthetic_sample(
        scores, rng.normal(size=120), 0.2, predicates=(predicates, np.arange(120) % 3), confidences=c
    )
    assert made.predicates is not None
    for relation in range(3):
        assert made.part(made.predicates == relation).base_rate == pytest.approx(0.2)
    own = made.weights[:60][predicates == 1]
    np.testing.assert_allclose(own / own[0], c[predicates == 1] / c[predicates == 1][0])


def test_the_overlap_of_soft_labels_is_weighted() -> None:
    found = score_audit(soft_sample(np.array([0.0, 1.0]), np.array([0.25, 1.0])), soft=True)
    assert found.overlap == pytest.approx(0.25 * 0.75 / 2 / (1.25 * 0.75))


def test_the_constants_are_means_of_confidences() -> None:
    c, predicates = np.array([0.2, 0.4, 0.9, 0.7]), np.array([0, 0, 2, 2])
    sample = soft_sample(np.zeros(4), c, predicates)
    assert Constant().fit_sample(sample).calibrate(np.zeros(2)) == pytest.approx([0.55, 0.55])
    fitted = ConstantByRelation().fit_sample(sample)
    again = ConstantByRelation.from_parameters(fitted.parameters())
    for one in (fitted, again):
        assert one.calibrate_of(np.zeros(3), np.array([0, 1, 2])) == pytest.approx([0.3, 0.55, 0.8])


def test_metrics_against_confidences_by_hand() -> None:
    q, c = np.array([0.2, 0.6, 0.9]), np.array([0.3, 0.5, 1.0])
    assert brier(q, c) == pytest.approx((0.01 + 0.01 + 0.01) / 3)
    assert log_loss(q, c) == pytest.approx(-np.mean(c * np.log(q) + (1 - c) * np.log(1 - q)))
    assert accuracy(q > 0.5, c) == pytest.approx((0.7 + 0.5 + 1.0) / 3)
    assert best_threshold(q, np.array([0.4, 0.6, 0.9]), np.ones(3)) == pytest.approx(0.4)
    draw = Sample(SortedRows(q, c), bins=10, tau=0.5).draw()
    assert METRICS.get("mean_squared_error").value(draw) == pytest.approx(0.01)
    assert METRICS.get("mean_absolute_error").value(draw) == pytest.approx(0.1)


def test_all_metrics_but_the_brier_score_are_those_of_weighted_duplicates(rng: np.random.Generator) -> None:
    """Compare with every row as a true triple of weight c and a false triple of weight 1 - c."""
    q, c = rng.uniform(size=300).round(2), rng.uniform(0.01, 0.99, 300)
    soft = evaluate(replace(predictions({"a": q}, np.ones(300)), confidences=c), FAST)["a"].metrics
    twice = predictions({"a": np.r_[q, q]}, np.repeat([1.0, 0.0], 300), np.r_[c, 1 - c])
    hard = evaluate(twice, FAST)["a"].metrics
    assert soft["brier"] == pytest.approx(soft["mean_squared_error"]) == pytest.approx(np.mean((q - c) ** 2))
    assert hard["brier"] == pytest.approx(soft["brier"] + np.mean(c * (1 - c)))
    assert soft["brier_uncertainty"] == pytest.approx(np.var(c))
    parts = decompose_brier(q, c)
    assert parts.score == pytest.approx(soft["brier"])
    assert parts.uncertainty == pytest.approx(np.var(c))
    others = set(hard) - {"brier", "brier_uncertainty", "debiased_rmsce"}  # debiasing counts rows
    for name in others:
        assert soft[name] == pytest.approx(hard[name], abs=1e-6), name


def test_the_debiased_error_is_near_0_for_the_expected_confidence() -> None:
    rng = np.random.default_rng(3)
    squares = []
    for _ in range(50):
        q = rng.uniform(0.2, 0.8, 500)
        c = q + rng.uniform(-0.2, 0.2, 500)
        squares.append(debiased_rmsce(q, c) ** 2)
    # with the variance of labels 0 and 1 it would always be 0
    assert 10 < np.count_nonzero(squares) < 40


@pytest.mark.parametrize("name", LOSSES.names())
def test_a_loss_of_confidences_of_1_is_the_loss(name: str, rng: np.random.Generator) -> None:
    loss = build(LOSSES.get(name), {})
    positives, corrupted = torch.tensor(rng.normal(size=6)), torch.tensor(rng.normal(size=(6, 4)))
    found = loss.of_confidences(positives, corrupted, torch.ones(6, dtype=torch.float64))
    assert found.item() == pytest.approx(loss(positives, corrupted).item(), rel=1e-12)


@pytest.mark.parametrize("name", LOSSES.names())
def test_a_lower_confidence_pulls_a_score_up_less(name: str) -> None:
    loss = build(LOSSES.get(name), {})
    scores = torch.zeros(3, dtype=torch.float64).requires_grad_()
    c = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    [pull] = torch.autograd.grad(loss.of_confidences(scores, torch.zeros(3, 2, dtype=torch.float64), c), scores)
    assert pull[0] > pull[1] > pull[2]


def test_nll_of_confidences_is_the_cross_entropy() -> None:
    scores, c = torch.tensor([0.3, -2.0]), torch.tensor([0.2, 0.7])
    found = build(LOSSES.get("nll"), {}).of_confidences(scores, torch.full((2, 1), -1e4), c)
    assert found.item() == pytest.approx(
        2 * log_loss(torch.sigmoid(scores).double().numpy(), c.double().numpy()), rel=1e-5
    )


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


def test_a_sample_needs_more_than_one_kind_of_row() -> None:
    with pytest.raises(InputError, match="probabilities must be in"):
        soft_sample(np.zeros(2), np.array([0.5, 1.5]))
    assert isinstance(soft_sample(np.zeros(1), np.array([0.5])), CalibrationSample)
