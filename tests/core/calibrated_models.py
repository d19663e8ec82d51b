"""Small calibrated models, for the tests of everything that asks one."""

from pathlib import Path

from kgcore.calibrated import CalibratedModel
from kgcore.calibration.bound import BoundCalibrator
from kgcore.calibration.sample import CalibrationSample, ground_truth_sample
from kgcore.calibration.support import Support
from kgcore.combiners.scorer import CombinedModel
from kgcore.config import TrainConfig
from kgcore.ensembles.ensemble import Ensemble
from kgcore.ensembles.pooled import PooledModel
from kgcore.graph import KnowledgeGraph
from kgcore.models.trained import TrainedModel
from kgcore.registries import CALIBRATORS
from kgcore.storage.calibrated import GRAPH_PART, parts_of, write_calibrator, write_ensemble, write_model
from kgcore.storage.graph import write_graph
from kgcore.training.loop import train
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
    fitted = CALIBRATORS.get(calibrator)().fit_sample(sample)
    prints, support = (trained.fingerprint(), graph.fingerprint()), Support.fit(sample, fitted.by_predicate)
    bound = BoundCalibrator(calibrator, negatives, base_rate or sample.base_rate, *prints, fitted, support=support)
    return CalibratedModel(trained, bound, graph)


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
    """Write calibrator.json or ensemble.json, each embedding model to its folder, and the graph to graph/."""
    scorer = model.trained
    if isinstance(scorer, PooledModel):
        write_ensemble(folder, ([], Ensemble(scorer.pooling, model.calibrator)))
        members = list(scorer.members)
    else:
        write_calibrator(folder, model.calibrator)
        members = [scorer.trained, *scorer.others] if isinstance(scorer, CombinedModel) else [scorer]
    parts = parts_of(len(members), isinstance(scorer, PooledModel))
    for part, member in zip(parts, members, strict=True):
        assert isinstance(member, TrainedModel)
        write_model(folder / part, member)
    write_graph(folder / GRAPH_PART, model.graph)
