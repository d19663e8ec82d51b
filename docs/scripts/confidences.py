"""The table of docs/explanation/confidences.md: PPI5K, models and calibrators against its confidences.

    python docs/scripts/confidences.py ppi5k                 # the folder with train.txt, valid.txt and test.txt
    python docs/scripts/confidences.py ppi5k calibrators     # every calibrator, on the scores of one model
    python docs/scripts/confidences.py ppi5k reverse         # without test triples whose reverse is in train

The fourth column of the files has the confidences. Every row is a model that is trained once, with seed 0. Its figures
are those of the calibrator `per_relation`, fitted to the validation triples, on the test triples.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from kgcore.calibrate.base import ConstantByRelation
from kgcore.calibrate.fit import GROUND_TRUTH, calibration_bases, fit_calibrators
from kgcore.calibrate.sample import soft_sample
from kgcore.config import CalibrateConfig, ClassifyConfig, CorruptConfig, EvaluateConfig, TrainConfig
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.prepare import prepare
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import Mixture
from kgcore.embed.corruptions.held_out import corrupt_held_out
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.measure.evaluation.evaluate import Measured, evaluate
from kgcore.measure.evaluation.predictions import classify
from kgcore.registries import CALIBRATORS
from kgcore.scores.table import score_table

CERTAIN = "confidence, all rows as true"
DOT_PRODUCT = TrainConfig(epochs=10, learning_rate=0.01)
TRAININGS = {
    ("distmult", "confidence"): DOT_PRODUCT,
    ("complex", "confidence"): DOT_PRODUCT,
    ("complex", "confidence, without corruptions"): DOT_PRODUCT.replace(loss_options={"corruptions": 0.0}),
    ("complex", "confidence, corruptions of weight 1"): DOT_PRODUCT.replace(loss_options={"corruptions": 1.0}),
    ("complex", "nll"): DOT_PRODUCT,
    ("complex", "multiclass_nll"): DOT_PRODUCT,
    ("complex", CERTAIN): DOT_PRODUCT,
    ("transe", "self_adversarial"): TrainConfig(epochs=20),
    ("transe", "pairwise"): TrainConfig(epochs=20),
}
ONE = ("complex", "confidence")  # the training of the table of calibrators


def graph_of(folder: str) -> KnowledgeGraph:
    """Read the folder, with confidences in the fourth column."""
    spec = find_dataset(folder)
    assert spec.folder is not None
    return prepare(spec, spec.folder, confidence="4").graph


def trained(graph: KnowledgeGraph, model: str, loss: str, config: TrainConfig) -> TrainedModel:
    """Train a model; if the loss is CERTAIN, as if every confidence were 1."""
    if loss == CERTAIN:
        graph = replace(graph, train=replace(graph.train, confidences=None))
    config = config.replace(model=model, loss=loss.partition(",")[0])
    return train(graph, config, torch.device("cpu")).model


def measured(graph: KnowledgeGraph, model: TrainedModel, calibrators: tuple[str, ...]) -> Mapping[str, Measured]:
    """Calibrate a model on validation, and measure it on test. Return label -> metrics, without synthetic ones."""
    corrupt, calibrate = CorruptConfig(), CalibrateConfig(calibrators=calibrators)
    strategy, rng = Mixture(graph, corrupt.calibration_strategy), np.random.default_rng(0)
    made = corrupt_held_out(graph, 1, strategy, rng, corrupt.calibration_sides, corrupt.calibration_filtered)
    table = score_table(graph, made, model)
    bases = calibration_bases(table, calibrate, corrupt)
    fitted = [one for one in fit_calibrators(table, calibrate, bases) if one.negatives in ("none", GROUND_TRUTH)]
    predictions = classify(table, fitted, len(graph.predicates), calibrate.rate.value, ClassifyConfig())
    return evaluate(predictions, EvaluateConfig(bootstrap_replicates=100))


def row(cells: tuple[str, ...], found: Measured, constant: Measured, seconds: str) -> str:
    """Return a row of the table: squared and absolute error, cross-entropy, and the gain over the constant."""
    error, low, high = (found.metrics["brier"], *found.intervals["brier"])
    gain = 1 - error / constant.metrics["brier"]
    figures = (
        f"{error:.4f}",
        f"{low:.4f} to {high:.4f}",
        f"{100 * gain:.0f} %",
        f"{found.metrics['mean_absolute_error']:.4f}",
        f"{found.metrics['log_loss']:.4f}",
        seconds,
    )
    return f"| {' | '.join((*cells, *figures))} |"


def reverse(graph: KnowledgeGraph) -> None:
    """Print the mean squared errors on the test triples whose reverse is in train, and on the others."""
    model, test, train_triples = ("distmult", "confidence"), graph.test, graph.train.triples
    found = trained(graph, *model, TRAININGS[model])
    sample = soft_sample(found.score(graph.valid.triples), graph.valid.truth, graph.valid.triples[:, 1])
    predicates = test.triples[:, 1]
    scores = found.score(test.triples)
    fitted = (CALIBRATORS.get("per_relation")(), ConstantByRelation())
    errors = [(one.fit_sample(sample).calibrate_of(scores, predicates) - test.truth) ** 2 for one in fitted]
    turned = graph.index(train_triples).contains(np.ascontiguousarray(test.triples[:, ::-1]))
    pairs = train_triples[:, [0, 2]] @ [len(graph.entities), 1]
    together = np.isin(test.triples[:, [0, 2]] @ [len(graph.entities), 1], pairs)
    parts = {"all": np.ones(len(test), dtype=bool), "reverse": turned, "no reverse": ~turned}
    print("| test triples | number | DistMult, `confidence` | constant by relation |\n|---|---|---|---|")
    for name, rows in (parts | {"nor another predicate": ~turned & ~together}).items():
        print(f"| {name} | {rows.sum():,} | {' | '.join(f'{error[rows].mean():.4f}' for error in errors)} |")


def main(folder: str, kind: str = "models") -> None:
    """Print the table of models, that of calibrators, or that of reverse triples."""
    graph = graph_of(folder)
    if kind == "reverse":
        reverse(graph)
        return
    first = "model | loss" if kind == "models" else "calibrator"
    print(f"| {first} | mean squared error | 95 % interval | below | mean absolute error | log loss | training, s |")
    print("|" + "---|" * (8 if kind == "models" else 7))
    trainings = TRAININGS if kind == "models" else {ONE: TRAININGS[ONE]}
    names = ("per_relation",) if kind == "models" else tuple(CALIBRATORS.names())
    for number, ((model, loss), config) in enumerate(trainings.items()):
        start = time.monotonic()
        made = trained(graph, model, loss, config)
        seconds = f"{time.monotonic() - start:.0f}"
        found = measured(graph, made, names)
        constant = found["constant_by_relation"]
        if number == 0:
            for label in ("constant", "constant_by_relation"):
                cells = (label.replace("_", " "), "") if kind == "models" else (label.replace("_", " "),)
                print(row(cells, found[label], constant, ""), flush=True)
        if kind == "models":
            print(row((model, loss), found[f"{GROUND_TRUTH}.per_relation"], constant, seconds), flush=True)
        else:
            for label in ("uncalibrated", *(f"{GROUND_TRUTH}.{name}" for name in names)):
                cells = (label.rpartition(".")[2].replace("_", " "),)
                print(row(cells, found[label], constant, seconds), flush=True)


if __name__ == "__main__":
    Path(sys.argv[1]).stat()
    main(*sys.argv[1:3])
