"""Every artifact is read back as it was written, and no format can hold code."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from kgcore import storage
from kgcore.calibration.bound import BoundCalibrator, CorruptionSettings
from kgcore.calibration.fit import fit_calibrators
from kgcore.config import CalibrateConfig, ClassifyConfig, CorruptConfig, EvaluateConfig
from kgcore.corruptions.base import corrupt_held_out
from kgcore.evaluation.evaluate import evaluate
from kgcore.evaluation.predictions import classify
from kgcore.graph import KnowledgeGraph, Split
from kgcore.models.base import Embeddings
from kgcore.models.trained import TrainedModel
from kgcore.registries import STRATEGIES
from kgcore.score_table import score_table


def test_every_artifact_survives_being_stored(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    storage.write_graph(tmp_path / "graph", small_graph)
    graph = storage.read_graph(tmp_path / "graph")
    assert graph.fingerprint() == small_graph.fingerprint()

    trained = TrainedModel("transe", 4, Embeddings(torch.randn(40, 4), torch.randn(3, 4)), {"norm": 2})
    storage.write_model(tmp_path / "model", trained)
    assert storage.read_model(tmp_path / "model").fingerprint() == trained.fingerprint()

    uniform = STRATEGIES.get("uniform")(graph)
    made = corrupt_held_out(graph, 3, uniform, np.random.default_rng(0), "both", True)
    storage.write_corruptions(tmp_path / "corruptions.parquet", made)
    again = storage.read_corruptions(tmp_path / "corruptions.parquet")
    np.testing.assert_array_equal(again["valid"].triples, made["valid"].triples)
    assert again["valid"].dropped == made["valid"].dropped

    table = score_table(graph, made, trained)
    storage.write_scores(tmp_path / "scores.parquet", table)
    read = storage.read_scores(tmp_path / "scores.parquet")
    for name in ("triples", "labels", "scores", "split", "origin"):
        np.testing.assert_array_equal(getattr(read, name), getattr(table, name))
    assert (read.model, read.dataset) == (trained.fingerprint(), graph.fingerprint())

    drawn = CorruptConfig(calibration_strategy={"uniform": 1.0}, calibration_sides="both")
    fitted = fit_calibrators(read, CalibrateConfig(), drawn)
    told = {c.label: BoundCalibrator.from_json(json.loads(json.dumps(c.to_json()))).corruptions for c in fitted}
    assert told.pop("synthetic.platt") == CorruptionSettings({"uniform": 1.0}, "both", True)
    assert told.pop("synthetic.isotonic") is not None
    assert set(told.values()) == {None}
    predictions = classify(read, fitted, 3, 0.5, ClassifyConfig())
    storage.write_predictions(tmp_path / "predictions.parquet", predictions)
    back = storage.read_predictions(tmp_path / "predictions.parquet")
    assert list(back.probabilities) == [
        "uncalibrated",
        "base_rate",
        "ground_truth.platt",
        "ground_truth.isotonic",
        "synthetic.platt",
        "synthetic.isotonic",
    ]
    for label, q in predictions.probabilities.items():
        np.testing.assert_array_equal(back.probabilities[label], q)
    assert back.accuracies == predictions.accuracies

    measured = evaluate(back, EvaluateConfig())
    storage.write_measured(tmp_path / "measured.json", measured)
    for label, result in storage.read_measured(tmp_path / "measured.json").items():
        assert result.metrics == measured[label].metrics
        np.testing.assert_array_equal(result.reliability.observed, measured[label].reliability.observed)

    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    assert kinds == {".parquet", ".json", ".safetensors"}


def test_a_data_set_without_negatives_is_judged_at_the_base_rate(small_graph: KnowledgeGraph) -> None:
    valid, test = small_graph.valid.positives, small_graph.test.positives
    graph = replace(small_graph, valid=Split(valid, np.ones(len(valid))), test=Split(test, np.ones(len(test))))
    trained = TrainedModel("transe", 4, Embeddings(torch.randn(40, 4), torch.randn(3, 4)))
    made = corrupt_held_out(graph, 5, STRATEGIES.get("uniform")(graph), np.random.default_rng(0), "both", True)
    table = score_table(graph, made, trained)
    fitted = fit_calibrators(table, CalibrateConfig(base_rate=0.2), CorruptConfig())
    assert [c.label for c in fitted] == ["uncalibrated", "base_rate", "synthetic.platt", "synthetic.isotonic"]
    predictions = classify(table, fitted, 3, 0.2, ClassifyConfig())
    assert predictions.base_rate == np.average(predictions.labels, weights=predictions.weights)
    np.testing.assert_allclose(predictions.base_rate, 0.2)
    assert not graph.all_known.contains(predictions.triples[predictions.labels == 0]).any()
    np.testing.assert_allclose(evaluate(predictions, EvaluateConfig())["base_rate"].metrics["brier"], 0.2 * 0.8)
    assert "weighted to the stated base rate of 0.2" in predictions.notes(0.2)[0]
