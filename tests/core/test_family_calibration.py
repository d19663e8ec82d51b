"""Calibration on the generated family graph, in which the truth of every triple is known."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from kgcore.calibrate.sample import base_rate_weights
from kgcore.config import CalibrateConfig, TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.family import PREDICATES, generate, write_genealogy
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph, TripleIndex
from kgcore.embed.corruptions.base import corrupt, subject_shares
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.measure.metrics.proper import brier, log_loss
from kgcore.measure.metrics.reliability import ece
from kgcore.registries import CALIBRATORS, STRATEGIES
from kgcore.scores.table import ScoreTable, score_table
from tests.core.calibrator_samples import fitted_to

SIZE, SEED = 2_000, 0
FITTED = tuple(CALIBRATORS.names())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[KnowledgeGraph, TripleIndex, TrainedModel, ScoreTable]:
    """Return the default family graph, all true triples, a model trained for 40 epochs, and its scores."""
    folder: Path = tmp_path_factory.mktemp("family")
    write_genealogy(folder, SIZE, SEED)
    graph = prepare(find_dataset("family"), folder).graph
    number, p = {name: i for i, name in enumerate(graph.entities)}, graph.predicates.index
    facts = [
        [number[county.entities[s]], p(PREDICATES[r]), number[county.entities[o]]]
        for county in generate(SIZE, SEED)
        for s, r, o in county.facts.tolist()
        if county.entities[s] in number and county.entities[o] in number
    ]
    trained = train(graph, TrainConfig(epochs=40), torch.device("cpu")).model
    uniform = STRATEGIES.get("uniform")(graph)
    made = corrupt_held_out(graph, 20, uniform, np.random.default_rng(0), "both", filtered=True)
    return graph, graph.index(np.array(facts)), trained, score_table(graph, made, trained)


def calibrated(table: ScoreTable, label: str, scores: np.ndarray, **settings) -> np.ndarray:
    settings = {"calibrators": (label.rpartition(".")[2],), **settings}
    [bound] = [c for c in fitted_to(table, CalibrateConfig(**settings)) if c.label == label]
    return bound.predict(scores, table.model)


def smooth_ece(q: np.ndarray, y: np.ndarray, weights: np.ndarray, cells: int = 2_000) -> float:
    """Compute the smooth calibration error (Blasiok & Nakkiran, ICLR 2024).

    It is the mean absolute value of the residual y - q after smoothing along q by a Gaussian kernel. The kernel is
    reflected at 0 and 1; its width is the fixed point at which width and error are equal.
    """
    residual = np.zeros(2 * cells)
    residual[: cells + 1] = np.bincount(np.rint(q * cells).astype(int), weights * (y - q), cells + 1) / weights.sum()
    around = np.minimum(np.arange(2 * cells), 2 * cells - np.arange(2 * cells)) / cells

    def error(width: float) -> float:
        kernel = np.exp(-0.5 * (around / width) ** 2)
        smooth = np.fft.irfft(np.fft.rfft(residual) * np.fft.rfft(kernel / kernel.sum()), 2 * cells)
        smooth[1:cells] += smooth[:cells:-1]  # add the reflected half
        return float(np.abs(smooth[: cells + 1]).sum())

    smallest = 1e-4
    return float(brentq(lambda width: error(width) - width, smallest, 2)) if error(smallest) > smallest else smallest


def test_the_labels_agree_with_the_truth(world) -> None:
    graph, truth, _, _ = world
    for split in (graph.valid, graph.test):
        np.testing.assert_array_equal(truth.contains(split.triples), split.labels == 1)


def test_ground_truth_isotonic_is_calibrated_in_every_tenth(world) -> None:
    """In each tenth of [0, 1] the number of true triples is in a 99 % binomial band, Bonferroni-corrected for ten."""
    _, _, _, table = world
    test = table.measured("test")
    q, y = calibrated(table, "ground_truth.isotonic", table.scores[test]), table.labels[test]
    place = np.clip(np.ceil(q * 10).astype(int) - 1, 0, 9)
    assert len(np.unique(place)) >= 8
    for tenth in np.unique(place):
        rows = place == tenth
        low, high = binom.interval(1 - 0.01 / 10, rows.sum(), q[rows].mean())
        assert low <= y[rows].sum() <= high, f"tenth {tenth}: {y[rows].sum()} true of {rows.sum()}, {low} to {high}"


@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.9])
def test_synthetic_isotonic_is_calibrated_at_the_stated_base_rate(world, alpha: float) -> None:
    """Held-out positives and verified-false uniform corruptions are mixed at the base rate."""
    graph, truth, trained, table = world
    positives = graph.test.positives
    rng = np.random.default_rng(1)
    made = corrupt(positives, 30, STRATEGIES.get("uniform")(graph), rng, subject_shares(graph, "both")).triples
    false = made[~truth.contains(made)]
    count = min(len(positives), int(len(false) * alpha / (1 - alpha)))
    mixed = [rng.permutation(positives)[:count], rng.permutation(false)[: round(count * (1 - alpha) / alpha)]]
    labels = np.repeat([1.0, 0.0], [len(part) for part in mixed])
    assert labels.mean() == pytest.approx(alpha, abs=0.005)
    scores = trained.score(np.concatenate(mixed))
    weighted = ece(calibrated(table, "synthetic.isotonic", scores, base_rate=alpha), labels)
    assert weighted <= 0.03
    unweighted = ece(calibrated(table, "synthetic.isotonic", scores, base_rate=alpha, weighted=False), labels)
    # without weights, eta = 20 implies a base rate of 1 / 21: far from 0.5 and 0.9, but within 0.1 of 0.1
    assert unweighted > (0.1 if alpha >= 0.5 else 3 * weighted)


def test_the_smooth_calibration_error_of_known_distortions() -> None:
    """A constant error of d without noise has the smooth error d; exact probabilities have almost none."""
    q, even = np.linspace(0.2, 0.6, 4_001), np.ones(4_001)
    assert smooth_ece(q, q + 0.3, even) == pytest.approx(0.3, abs=1e-3)
    assert smooth_ece(q, q, even) < 1e-3
    zigzag = np.where(np.arange(4_001) % 2, 0.3, -0.3)
    assert smooth_ece(q, q + zigzag, even) < 2e-3  # the errors of neighbouring triples cancel


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.95])
def test_every_calibrator_is_calibrated_at_every_base_rate(world, alpha: float) -> None:
    """The smooth calibration error is below 0.02, and Brier score and log loss are not above the uncalibrated ones.

    Synthetic calibrators are measured on verified-false corruptions; ground-truth calibrators are moved to the base
    rate first. Temperature scaling has no parameter for a base rate: only its log loss is checked, at the base rate of
    its fit.
    """
    graph, truth, trained, table = world
    uniform, shares = STRATEGIES.get("uniform")(graph), subject_shares(graph, "both")
    made = corrupt(graph.test.positives, 30, uniform, np.random.default_rng(1), shares).triples
    false = made[~truth.contains(made)]
    mixed = np.concatenate([graph.test.positives, false])
    labelled = table.measured("test")
    samples = {
        "synthetic": (
            trained.score(mixed),
            np.repeat([1.0, 0.0], [len(graph.test.positives), len(false)]),
            mixed[:, 1],
        ),
        "ground_truth": (table.scores[labelled], table.labels[labelled], table.triples[labelled, 1]),
    }
    fitted = fitted_to(table, CalibrateConfig(calibrators=FITTED, base_rate=alpha))
    assert len(fitted) == 2 + 2 * len(FITTED)
    for bound in fitted[2:]:
        scores, y, predicates = samples[bound.negatives]
        moved = bound if bound.name == "temperature" else bound.at(alpha)
        q, weights = moved.predict(scores, table.model, predicates), base_rate_weights(y, moved.base_rate)
        assert log_loss(q, y, weights) <= log_loss(expit(scores), y, weights), bound.label
        if bound.name != "temperature":
            assert brier(q, y, weights) <= brier(expit(scores), y, weights), bound.label
            assert smooth_ece(q, y, weights) < 0.02, bound.label
