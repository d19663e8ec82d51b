"""A calibrated model on the small graph, with the sample of its calibrator, for the tests of explanations."""

import torch

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample
from kgcore.calibration.support import Support
from kgcore.config import TrainConfig
from kgcore.graph import KnowledgeGraph
from kgcore.registries import CALIBRATORS
from kgcore.training.loop import train


def calibrated(
    graph: KnowledgeGraph, calibrator: str = "isotonic", **settings: object
) -> tuple[CalibratedModel, CalibrationSample]:
    """Train a model and fit a calibrator to the labelled validation triples. Return both, and their sample."""
    trained = train(graph, TrainConfig(k=8, epochs=2, batch_size=200, **settings), torch.device("cpu")).model
    valid = graph.valid
    sample = ground_truth_sample(trained.score(valid.triples), valid.labels, valid.triples[:, 1])
    fitted = CALIBRATORS.get(calibrator).fit(sample)
    prints = trained.fingerprint(), graph.fingerprint()
    support = Support.fit(sample, fitted.by_predicate)
    bound = BoundCalibrator(calibrator, "ground_truth", sample.base_rate, *prints, fitted, support=support)
    return CalibratedModel(trained, bound, graph), sample
