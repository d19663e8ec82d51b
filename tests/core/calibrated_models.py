"""Small calibrated models, for the tests of everything that asks one."""

from pathlib import Path

from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.base_rate import ASSUMED, BaseRate
from kgcore.calibrate.calibrated import Terms
from kgcore.calibrate.fit import Basis
from kgcore.calibrate.sample import CalibrationSample, ground_truth_sample
from kgcore.config import TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.trained import TrainedModel
from kgcore.embed.training.loop import train
from kgcore.registries import CALIBRATORS
from kgcore.storage.folders import GRAPH_PART, parts_of, write_calibrator, write_graph, write_model
from tests.core.trainings import CPU

SMALL = {"k": 8, "epochs": 2, "batch_size": 200}


def trained_on(graph: KnowledgeGraph, **settings: object) -> TrainedModel:
    """Train a small model. Settings replace those of SMALL."""
    return train(graph, TrainConfig(**{**SMALL, **settings}), CPU).model


def with_calibrator(
    trained: TrainedModel,
    graph: KnowledgeGraph,
    sample: CalibrationSample,
    calibrator: str,
    negatives: str = "ground_truth",
    base_rate: float | None = None,
) -> CalibratedModel:
    """Fit a calibrator to a sample of the model's scores. base_rate: the exact one, if the sample's is rounded."""
    rate = base_rate or sample.base_rate
    basis = Basis(sample, Terms(negatives=negatives, rate=BaseRate(rate, origin=ASSUMED), dataset=graph.fingerprint()))
    fitted = CALIBRATORS.get(calibrator)().fit_sample(sample)
    return CalibratedModel(trained, basis.bind(calibrator, fitted, trained.fingerprint()), graph)


def calibrated_and_sample(
    graph: KnowledgeGraph, calibrator: str = "isotonic", **settings: object
) -> tuple[CalibratedModel, CalibrationSample]:
    """Train a small model, and fit a calibrator to the labelled validation triples. Return both, and their sample."""
    trained, valid = trained_on(graph, **settings), graph.valid
    sample = ground_truth_sample(trained.score(valid.triples), valid.labels, valid.triples[:, 1])
    return with_calibrator(trained, graph, sample, calibrator), sample


def calibrated(graph: KnowledgeGraph, calibrator: str = "isotonic", **settings: object) -> CalibratedModel:
    """Train a small model, and fit a calibrator to the labelled validation triples."""
    return calibrated_and_sample(graph, calibrator, **settings)[0]


def write_calibrated(folder: Path, model: CalibratedModel) -> None:
    """Write calibrator.json, each embedding model to its folder, and the graph to graph/."""
    write_calibrator(folder, model.calibrator)
    models = model.trained.embedding_models
    for part, embedding in zip(parts_of(len(models)), models, strict=True):
        write_model(folder / part, embedding)
    write_graph(folder / GRAPH_PART, model.graph)
