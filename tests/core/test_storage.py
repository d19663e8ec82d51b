"""Storage: what is read from an artifact equals what was written."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from kgcore.base_rate import ASSUMED, BaseRate
from kgcore.calibrate.calibrated import Calibrated, CorruptionSettings
from kgcore.config import CalibrateConfig, ClassifyConfig, CorruptConfig, EvaluateConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import Corruptions
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.evaluation.predictions import Predictions, classify
from kgcore.registries import STRATEGIES
from kgcore.scores.table import ScoreTable, score_table
from kgcore.storage.folders import read_graph, read_measured, read_model, write_graph, write_measured, write_model
from kgcore.storage.tables import (
    read_corruptions,
    read_predictions,
    read_scores,
    write_corruptions,
    write_predictions,
    write_scores,
)
from tests.core.calibrator_samples import fitted_to

DEFAULTS = CalibrateConfig().score_calibrators


@pytest.fixture
def trained() -> TrainedModel:
    return TrainedModel("transe", 4, Embeddings(torch.randn(40, 4), torch.randn(3, 4)), {"norm": 2})


@pytest.fixture
def corruptions(small_graph: KnowledgeGraph) -> dict[str, Corruptions]:
    uniform = STRATEGIES.get("uniform")(small_graph)
    return corrupt_held_out(small_graph, 3, uniform, np.random.default_rng(0), "both", True)


@pytest.fixture
def table(small_graph: KnowledgeGraph, corruptions: dict[str, Corruptions], trained: TrainedModel) -> ScoreTable:
    return score_table(small_graph, corruptions, trained)


@pytest.fixture
def calibrators(table: ScoreTable) -> list[Calibrated]:
    drawn = CorruptConfig(calibration_strategy={"uniform": 1.0}, calibration_sides="both")
    return fitted_to(table, CalibrateConfig(), drawn)


@pytest.fixture
def predictions(table: ScoreTable, calibrators: list[Calibrated]) -> Predictions:
    return classify(table, calibrators, 3, 0.5, ClassifyConfig(), rng=np.random.default_rng(0))


def test_a_graph_and_a_model_are_read_as_they_were_written(
    small_graph: KnowledgeGraph, trained: TrainedModel, tmp_path: Path
) -> None:
    write_graph(tmp_path / "graph", small_graph)
    assert read_graph(tmp_path / "graph").fingerprint() == small_graph.fingerprint()
    write_model(tmp_path / "model", trained)
    assert read_model(tmp_path / "model").fingerprint() == trained.fingerprint()
    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert kinds == {".parquet", ".json", ".safetensors"}  # no file has a format that can hold code


def test_corruptions_are_read_as_they_were_written(corruptions: dict[str, Corruptions], tmp_path: Path) -> None:
    write_corruptions(tmp_path / "corruptions.parquet", corruptions)
    again = read_corruptions(tmp_path / "corruptions.parquet")
    for split, made in corruptions.items():
        np.testing.assert_array_equal(again[split].triples, made.triples)
        np.testing.assert_array_equal(again[split].source, made.source)
        counts = [(c.dropped, c.fallbacks, c.redrawn) for c in (again[split], made)]
        assert counts[0] == counts[1]


def test_a_score_table_is_read_as_it_was_written(
    table: ScoreTable, small_graph: KnowledgeGraph, trained: TrainedModel, tmp_path: Path
) -> None:
    write_scores(tmp_path / "scores.parquet", table)
    read = read_scores(tmp_path / "scores.parquet")
    for name in ("triples", "labels", "scores", "split", "origin"):
        np.testing.assert_array_equal(getattr(read, name), getattr(table, name))
    assert (read.model, read.dataset) == (trained.fingerprint(), small_graph.fingerprint())


def test_a_calibrators_json_has_the_corruptions_it_was_fitted_on(calibrators: list[Calibrated]) -> None:
    again = {c.label: Calibrated.from_json(json.loads(json.dumps(c.to_json()))) for c in calibrators}
    corruptions = {label: bound.corruptions for label, bound in again.items()}
    for name in DEFAULTS:
        assert corruptions.pop(f"synthetic.{name}") == CorruptionSettings({"uniform": 1.0}, "both", True)
    assert set(corruptions.values()) == {None}


def test_predictions_are_read_as_they_were_written(predictions: Predictions, tmp_path: Path) -> None:
    write_predictions(tmp_path / "predictions.parquet", predictions)
    back = read_predictions(tmp_path / "predictions.parquet")
    fitted = [f"{negatives}.{name}" for negatives in ("ground_truth", "synthetic") for name in DEFAULTS]
    assert list(back.probabilities) == ["uncalibrated", "base_rate", *fitted]
    for label, q in predictions.probabilities.items():
        np.testing.assert_array_equal(back.probabilities[label], q)
    assert back.accuracies == predictions.accuracies
    assert back.relations == predictions.relations
    assert back.examples == predictions.examples
    assert list(back.examples) == fitted
    assert len(back.relations) == len(np.unique(back.triples[:, 1]))


def test_the_metadata_of_predictions_is_json_with_these_keys(predictions: Predictions, tmp_path: Path) -> None:
    write_predictions(tmp_path / "predictions.parquet", predictions)
    metadata = json.loads(pq.read_schema(tmp_path / "predictions.parquet").metadata[b"kgcal"])
    assert list(metadata) == [
        *("accuracies", "accuracy_per_relation", "relations", "synthetic_negatives", "left_out", "examples")
    ]
    relation = metadata["relations"][0]
    assert list(relation) == ["predicate", "triples", "learned", "median"]
    assert list(relation["learned"]) == list(relation["median"]) == ["threshold", "accuracy"]


def test_measured_metrics_are_read_as_they_were_written(predictions: Predictions, tmp_path: Path) -> None:
    measured = evaluate(predictions, EvaluateConfig())
    write_measured(tmp_path / "measured.json", measured)
    again = read_measured(tmp_path / "measured.json")
    assert list(again) == list(measured)
    for label, result in again.items():
        assert (result.metrics, result.intervals) == (measured[label].metrics, measured[label].intervals)
        np.testing.assert_array_equal(result.reliability.observed, measured[label].reliability.observed)


def test_a_data_set_without_negatives_is_judged_at_the_base_rate(small_graph: KnowledgeGraph) -> None:
    valid, test = small_graph.valid.positives, small_graph.test.positives
    graph = replace(small_graph, valid=Split(valid, np.ones(len(valid))), test=Split(test, np.ones(len(test))))
    trained = TrainedModel("transe", 4, Embeddings(torch.randn(40, 4), torch.randn(3, 4)))
    made = corrupt_held_out(graph, 5, STRATEGIES.get("uniform")(graph), np.random.default_rng(0), "both", True)
    table = score_table(graph, made, trained)
    fitted = fitted_to(table, CalibrateConfig(base_rate=0.2))
    assert [c.label for c in fitted] == ["uncalibrated", "base_rate", *(f"synthetic.{name}" for name in DEFAULTS)]
    assert {c.base_rate for c in fitted} == {0.2}  # exactly: not the share of the weights
    predictions = classify(table, fitted, 3, 0.2, ClassifyConfig())
    assert predictions.base_rate == np.average(predictions.labels, weights=predictions.weights)
    np.testing.assert_allclose(predictions.base_rate, 0.2)
    assert not graph.all_known.contains(predictions.triples[predictions.labels == 0]).any()
    np.testing.assert_allclose(evaluate(predictions, EvaluateConfig())["base_rate"].metrics["brier"], 0.2 * 0.8)
    assert "weighted to the stated base rate of 0.2" in predictions.notes(BaseRate(0.2))[0]
    for labelled_false, evidence in (
        (0, "none, because no triple is labelled false"),
        (7, "7 validation triples that"),
    ):
        _, by_construction, mistakes = predictions.notes(BaseRate(0.2), labelled_false)
        assert by_construction.startswith("A small calibration error here is by construction")
        assert f"Evidence about real mistakes: {evidence}" in mistakes
        assert "kgcal recalibrate --labels FILE" in mistakes or "kgcal watch --labels FILE" in mistakes
    assert "base rate of synthetic calibrators, 0.2, is assumed" in predictions.notes(BaseRate(0.2, origin=ASSUMED))[-1]
