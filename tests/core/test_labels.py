"""Newly labelled triples: how they are read, and how they change the validation split."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from kgcore.base_rate import ESTIMATED, BaseRate
from kgcore.calibrate.calibrated import Terms
from kgcore.calibrate.fit import Basis, calibration_bases
from kgcore.calibrate.platt import Platt
from kgcore.calibrate.sample import CalibrationSample, synthetic_sample
from kgcore.config import CalibrateConfig
from kgcore.data.datasets.labels import read_labels, with_labels
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError
from kgcore.scores.table import ScoreTable
from kgcore.storage.folders import read_graph, write_graph
from tests.core.unused import unused_triples


def labelled(graph: KnowledgeGraph, triples: np.ndarray, labels: list[int]) -> pd.DataFrame:
    return graph.names_of(triples).assign(label=np.array(labels, dtype=float))


def held_in(graph: KnowledgeGraph, split: Split, triples: np.ndarray) -> np.ndarray:
    """Return the labels of those triples in the split; NaN for a triple that is not in it."""
    rows = {tuple(row): label for row, label in zip(split.triples.tolist(), split.labels, strict=True)}
    return np.array([rows.get(tuple(row), np.nan) for row in triples.tolist()])


def test_numbering_inverts_naming(small_graph: KnowledgeGraph) -> None:
    names = small_graph.names_of(small_graph.test.triples)
    triples, known = small_graph.number(names)
    np.testing.assert_array_equal(triples, small_graph.test.triples)
    assert known.all()
    names.loc[1, "object"] = "nobody"
    triples, known = small_graph.number(names)
    assert not known[1]
    assert known.sum() == len(known) - 1
    assert triples[1, 2] == -1


def test_new_labels_join_only_the_validation_split(small_graph: KnowledgeGraph) -> None:
    new, changed = unused_triples(small_graph, 3), small_graph.valid.positives[:1]
    rows = np.r_[new, changed, small_graph.train.triples[:2], small_graph.test.triples[:1]]
    frame = labelled(small_graph, rows, [1, 0, 0, 0, 1, 0, 1])
    frame.loc[len(frame)] = ["nobody", "p0", "e1", 1.0]
    made = with_labels(small_graph, frame)
    assert held_in(made.graph, made.graph.valid, rows[:4]).tolist() == [1, 0, 0, 0]
    assert np.isnan(held_in(made.graph, made.graph.valid, rows[4:])).all()  # training triples are not held out
    assert len(made.graph.valid) == len(small_graph.valid) + 3
    assert made.graph.train is small_graph.train
    assert made.graph.test is small_graph.test
    assert made.graph.training_fingerprint() == small_graph.training_fingerprint()
    assert made.graph.fingerprint() != small_graph.fingerprint()
    assert made.counts == {
        "labels_rows": 8,
        "labels_with_unseen": 1,
        "labels_not_held_out": 3,
        "labels_used": 4,
        "labels_false": 3,
        "labels_known": 0,
        "valid_positives": len(small_graph.valid.positives),
        "valid_negatives": len(small_graph.valid.negatives) + 3,
    }


def without_negatives(graph: KnowledgeGraph) -> KnowledgeGraph:
    return replace(graph, valid=Split(graph.valid.positives, np.ones(len(graph.valid.positives))))


def test_new_labels_replace_validation_on_request(small_graph: KnowledgeGraph) -> None:
    frame = labelled(small_graph, unused_triples(small_graph, 4), [1, 0, 0, 1])
    positives = small_graph.valid.positives
    made = with_labels(small_graph, frame, instead=True).graph
    assert len(made.valid) == 4
    assert made.labelled_base_rate is None
    assert made.known.contains(positives).all()  # replaced positives are still known to be true
    assert made.all_known.contains(positives).all()
    assert made.fingerprint() != replace(made, other_facts=made.other_facts[1:]).fingerprint()


def test_new_labels_join_validation_positives_and_their_share_is_the_base_rate(small_graph: KnowledgeGraph) -> None:
    unlabelled, new = without_negatives(small_graph), unused_triples(small_graph, 5)
    made = with_labels(unlabelled, labelled(unlabelled, new, [1, 0, 0, 0, 0])).graph
    assert len(made.valid) == len(unlabelled.valid) + 5
    assert held_in(made, made.valid, new).tolist() == [1, 0, 0, 0, 0]
    assert (held_in(made, made.valid, unlabelled.valid.triples) == 1).all()
    assert made.labelled_base_rate == BaseRate.of_sample(1, 5)
    again = np.r_[new[1:], unlabelled.valid.positives[:1]]  # the same rows in valid
    made = with_labels(unlabelled, labelled(unlabelled, again, [0, 0, 0, 0, 1])).graph
    other = with_labels(unlabelled, labelled(unlabelled, new[1:], [0, 0, 0, 0])).graph
    np.testing.assert_array_equal(made.valid.triples, other.valid.triples)
    assert (made.labelled_base_rate, other.labelled_base_rate) == (BaseRate.of_sample(1, 5), BaseRate.of_sample(0, 4))
    assert made.fingerprint() != other.fingerprint()
    only_true = with_labels(unlabelled, labelled(unlabelled, new, [1] * 5)).graph
    assert (len(only_true.valid.negatives), only_true.labelled_base_rate) == (0, None)


def test_a_graph_keeps_the_base_rate_of_its_labels(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    unlabelled = without_negatives(small_graph)
    made = with_labels(unlabelled, labelled(unlabelled, unused_triples(unlabelled, 3), [1, 0, 0])).graph
    write_graph(tmp_path, made)
    assert read_graph(tmp_path).fingerprint() == made.fingerprint()


def table_of(positives: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> ScoreTable:
    """Return a table of scored validation positives and newly labelled triples, without corruptions but one."""
    every = np.r_[np.ones(len(positives)), labels, 0]
    origin = np.array(["labelled"] * (len(every) - 1) + ["corruption"])
    triples, split = np.zeros((len(every), 3), dtype=np.int64), np.repeat("valid", len(every))
    base_rate = BaseRate.of_sample(int(labels.sum()), len(labels))
    return ScoreTable(triples, every, np.r_[positives, scores, 0.0], split, origin, "m", "d", base_rate)


def test_few_labels_calibrate_better_with_the_validation_positives_than_alone() -> None:
    """Candidates of which a sixth are true; 3,500 validation positives and 60 labels. The truth is known."""
    rng = np.random.default_rng(1)
    alpha, log_losses, means = 1 / 6, [], []
    asked = rng.normal(0, 1, 20_000) + 1.5 * (rng.random(20_000) < alpha)
    truth = expit(1.5 * asked - 1.125 + np.log(alpha / (1 - alpha)))
    for _ in range(40):
        labels = (rng.random(60) < alpha).astype(float)
        scores = rng.normal(1.5 * labels, 1)
        table = table_of(rng.normal(1.5, 1, 3500), labels, scores)
        fits = [
            calibration_bases(table, CalibrateConfig())["ground_truth"].sample,
            CalibrationSample(scores, labels, np.ones(60)),
            calibration_bases(replace(table, labelled_base_rate=None), CalibrateConfig())["ground_truth"].sample,
        ]
        q = [Platt().fit_sample(sample).calibrate(asked).clip(1e-7, 1 - 1e-7) for sample in fits]
        log_losses.append([-np.mean(truth * np.log(own) + (1 - truth) * np.log1p(-own)) for own in q])
        means.append([own.mean() for own in q])
    joined, alone, unweighted = np.mean(log_losses, axis=0)
    assert joined < alone - 0.002
    assert np.mean(means, axis=0)[0] == pytest.approx(alpha, abs=0.02)
    assert np.mean(means, axis=0)[2] > 0.9  # without the weights the base rate would be invented
    assert unweighted > 2 * joined


def test_intervals_allow_for_the_base_rate_that_few_labels_estimate() -> None:
    """Positives and corruptions determine the curve; the base rate of 60 labels is most of the uncertainty."""
    rng = np.random.default_rng(1)
    alpha, held = 1 / 6, []
    asked = np.linspace(-1, 3.5, 40)
    truth = expit(1.5 * asked - 1.125 + np.log(alpha / (1 - alpha)))
    for _ in range(60):
        rate = BaseRate.of_sample(int((rng.random(60) < alpha).sum()), 60)
        sample = synthetic_sample(rng.normal(1.5, 1, 3500), rng.normal(0, 1, 10_000), rate.value)
        basis = Basis(sample, Terms(negatives="synthetic", rate=rate, dataset="d"))
        bound = basis.bind("platt", Platt().fit_sample(basis.sample), "m")
        known = replace(bound, rate=BaseRate(rate.value, origin=ESTIMATED))
        limits = [each.interval(asked, each.predict(asked, "m")) for each in (bound, known)]
        held.append([np.mean((low <= truth) & (truth <= high)) for low, high in limits])
    assert np.mean(held, axis=0)[0] >= 0.93
    assert np.mean(held, axis=0)[1] < 0.85


def test_a_fact_with_a_new_false_label_is_no_longer_known(small_graph: KnowledgeGraph) -> None:
    doubted = small_graph.valid.positives[:3]
    frame = labelled(small_graph, np.r_[doubted, unused_triples(small_graph, 1)], [0, 0, 0, 1])
    for instead in (True, False):
        made = with_labels(small_graph, frame, instead).graph
        assert not made.known.contains(doubted).any()
        assert made.known.contains(small_graph.valid.positives[3:]).all()


def test_a_validation_split_without_positives_is_refused(small_graph: KnowledgeGraph) -> None:
    frame = labelled(small_graph, unused_triples(small_graph, 3), [0, 0, 0])
    with pytest.raises(InputError, match="no triple of the new validation split is true"):
        with_labels(small_graph, frame, instead=True)


def test_the_order_of_the_lines_has_no_effect(small_graph: KnowledgeGraph) -> None:
    frame = labelled(small_graph, unused_triples(small_graph, 6), [1, 0, 0, 1, 0, 1])
    shuffled = frame.sample(frac=1, random_state=3)
    assert with_labels(small_graph, frame).graph.fingerprint() == with_labels(small_graph, shuffled).graph.fingerprint()


def test_labels_without_a_usable_triple_are_refused(small_graph: KnowledgeGraph) -> None:
    frame = labelled(small_graph, small_graph.train.triples[:2], [1, 1])
    frame.loc[2] = ["nobody", "p0", "e1", 1.0]
    unknown = r"1 with a name that is not in train \(line 2: unknown entity 'nobody'\)"
    with pytest.raises(InputError, match=f"none of the 3 labelled triples .*: {unknown}, 2 in the train or test split"):
        with_labels(small_graph, frame)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a\tp\tb\t1\na\tp\tc\t2\n", "line 2: label is '2': it must be 1 or -1"),
        ("a\tp\tb\n", "line 1: 3 tab-separated columns: it must have 4"),
        ("a\tp\tb\t1\na\tp\tc\t1\na\tp\tb\t-1\n", "line 3: the triple is labelled both 1 and -1"),
        ("", "is empty"),
    ],
)
def test_a_fault_is_reported_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "new.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=fault):
        read_labels(path)


def test_a_repeated_line_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "new.tsv"
    path.write_text("a\tp\tb\t1\na\tp\tb\t1\nb\tp\ta\t-1\n")
    assert read_labels(path)["label"].tolist() == [1.0, 0.0]


def test_labels_that_validation_already_has_are_counted(small_graph: KnowledgeGraph) -> None:
    again = np.r_[small_graph.valid.positives[:3], small_graph.valid.negatives[:2]]
    made = with_labels(
        small_graph, labelled(small_graph, np.r_[again, unused_triples(small_graph, 1)], [1, 1, 1, 0, 0, 0])
    )
    assert (made.counts["labels_used"], made.counts["labels_known"]) == (6, 5)
    assert len(made.graph.valid) == len(small_graph.valid) + 1
