"""How like a file is to calibration triples: alike, or apart; and the calibration triples that are drawn anew."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from kgcore.answer.population.likeness import (
    CalibrationTriples,
    SampleDifference,
    Z,
    difference,
    separation,
    separation_of_scores,
    true_share,
)
from kgcore.arrays import Floats, Triples
from kgcore.calibrate.calibrated import CorruptionSettings
from kgcore.errors import InputError
from kgcore.scores.table import Evidence
from tests.core.calibrated_models import calibrated
from tests.core.populations import graph_with_labels

NAMES = ("score", "degree")


def drawn(rng: np.random.Generator, n: int, centre: float = 0.0, predicate: int = 0) -> tuple[Triples, Floats]:
    """Return triples of distinct entities, and two features of which the first has a centre."""
    values = rng.normal(size=(n, 2)) + np.array([centre, 0.0])
    return np.column_stack([rng.integers(10**6, size=n), np.full(n, predicate), rng.integers(10**6, size=n)]), values


def compared(rows: tuple[Triples, Floats], calibration: tuple[Triples, Floats], seed: int = 0) -> SampleDifference:
    samples = [(triples, Evidence(NAMES, values.astype(np.float32))) for triples, values in (rows, calibration)]
    return difference(samples[0], samples[1], np.ones(len(calibration[0])), np.random.default_rng(seed))


def joined(*parts: tuple[Triples, Floats]) -> tuple[Triples, Floats]:
    return np.concatenate([triples for triples, _ in parts]), np.concatenate([values for _, values in parts])


@pytest.mark.parametrize("n", [60, 400])
def test_files_that_are_drawn_as_the_calibration_triples_are_alike(n: int) -> None:
    for seed in range(2):
        rng = np.random.default_rng(seed)
        found = compared(drawn(rng, n), drawn(rng, 800), seed)
        assert found.alike


def test_other_shares_of_the_predicates_are_no_difference() -> None:
    rng = np.random.default_rng(0)
    rows = joined(drawn(rng, 300, 0.0, 0), drawn(rng, 20, 3.0, 1))
    found = compared(rows, joined(drawn(rng, 60, 0.0, 0), drawn(rng, 800, 3.0, 1), drawn(rng, 50, 0.0, 2)))
    assert found.alike


def test_an_entity_that_only_the_file_has_is_no_difference() -> None:
    """Each subject has one value of a feature, so that trees could learn which subjects the file has."""
    rng = np.random.default_rng(0)
    of_subject = rng.normal(size=60)
    parts = []
    for subjects in (np.arange(30), np.arange(30, 60)):
        chosen = rng.choice(subjects, 600)
        triples = np.column_stack([chosen, np.zeros(600, dtype=np.int64), rng.integers(10**6, size=600)])
        parts.append((triples, np.column_stack([of_subject[chosen], rng.normal(size=600)])))
    assert compared(*parts).alike


def test_the_auroc_of_samples_that_differ_is_that_of_their_densities() -> None:
    rng = np.random.default_rng(1)
    found = compared(drawn(rng, 2_000, 0.7), drawn(rng, 2_000))
    assert not found.alike
    assert found.low < 0.69 < found.high  # Phi(0.7 / sqrt 2)
    assert str(found).startswith("AUROC 0.6")


def test_samples_without_a_common_predicate_cannot_be_compared() -> None:
    rng = np.random.default_rng(3)
    with pytest.raises(InputError, match="have no common predicate"):
        compared(drawn(rng, 100, 0.0, 1), drawn(rng, 100, 0.0, 0))


@pytest.mark.parametrize("kind", ["ground_truth", "synthetic"])
def test_calibration_triples_are_those_of_validation_at_the_base_rate(kind: str) -> None:
    """Corruptions are drawn anew, by the strategy of the calibrator. No corruption is a known fact of any split."""
    graph = graph_with_labels()
    settings = CorruptionSettings({"uniform": 1.0}, "object", True) if kind == "synthetic" else None
    model = calibrated(graph)
    model = replace(model, calibrator=replace(model.calibrator, negatives=kind, corruptions=settings))
    rows = graph.test.triples[graph.test.triples[:, 1] == 1]
    triples, truth = CalibrationTriples(model).drawn(rows[:, 1], np.random.default_rng(0))
    assert set(triples[:, 1]) == {1}
    assert graph.index(graph.valid.positives).contains(triples).tolist() == (truth == 1).tolist()
    false = triples[truth == 0]
    assert not graph.all_known.contains(false).any()
    assert graph.index(graph.valid.negatives).contains(false).all() == (kind == "ground_truth")


def test_the_auroc_and_its_error_are_those_of_other_formulas() -> None:
    rng = np.random.default_rng(4)
    z, is_row, weights = rng.normal(size=400), rng.random(400) < 0.3, rng.random(400) + 0.5
    z = np.round(z + is_row, 1)  # with ties
    triples = np.column_stack([np.arange(400), np.zeros(400, dtype=np.int64), np.arange(400)])
    auroc, error = separation(z, is_row, weights, triples)
    assert auroc == pytest.approx(roc_auc_score(is_row, z, sample_weight=weights))
    again = []
    for _ in range(300):
        rows = np.r_[
            rng.choice(np.flatnonzero(is_row), is_row.sum()), rng.choice(np.flatnonzero(~is_row), (~is_row).sum())
        ]
        again.append(roc_auc_score(is_row[rows], z[rows], sample_weight=weights[rows]))
    assert error == pytest.approx(np.std(again), rel=0.15)
    doubled = separation(np.r_[z, z], np.r_[is_row, is_row], np.r_[weights, weights], np.r_[triples, triples])
    assert doubled == pytest.approx((auroc, error))  # a copy of each row, with its subject, says nothing new


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_the_share_of_true_rows_is_found_if_both_kinds_score_as_in_calibration(share: float) -> None:
    """Predicates have other scores, and another part of the rows than of the calibration triples."""
    rng = np.random.default_rng(5)

    def scored(true: int, false: int, predicate: int) -> tuple[Triples, Floats]:
        triples, values = drawn(rng, true + false, 10.0 * predicate, predicate)
        return triples, values[:, 0] + 1.5 * (np.arange(true + false) < true)

    truth = np.tile(np.r_[np.ones(500), np.zeros(500)], 2)
    calibration = joined(scored(500, 500, 0), scored(500, 500, 1))
    rows = joined(scored(int(3_000 * share), int(3_000 * (1 - share)), 0), scored(10, 10, 1))
    assert true_share(rows, calibration, truth) == pytest.approx(share, abs=0.05)
    assert true_share((rows[0], rows[1] - 99), calibration, truth) == 0.001


@pytest.mark.parametrize(("share", "alike"), [(0.5, True), (0.2, False)])
def test_scores_tell_a_file_with_fewer_true_rows(share: float, alike: bool) -> None:
    rng = np.random.default_rng(6)

    def scored(true: int, false: int) -> tuple[Triples, Floats]:
        triples, values = drawn(rng, true + false)
        return triples, values[:, 0] + 0.8 * (np.arange(true + false) < true)

    rows, calibration = scored(round(600 * share), round(600 * (1 - share))), scored(1_000, 1_000)
    auroc, error = separation_of_scores(rows, calibration, np.ones(2_000))
    found = SampleDifference(0.5, 0.45, 0.55, auroc, Z * error)
    assert found.alike == alike
    assert ("of the scores" in str(found)) != alike
