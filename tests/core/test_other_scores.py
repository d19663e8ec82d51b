"""The scores of further models as evidence: as the models give them, packed with a calibrator, and never mixed up."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kgcore
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.explainer import Explainer
from kgcore.answer.explanation import Explanation
from kgcore.answer.loaded import missing_parts, read_calibrated
from kgcore.arrays import Triples
from kgcore.calibrate.sample import ground_truth_sample
from kgcore.calibrate.support import Support
from kgcore.combiners.base import Combined, EvidenceSample
from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.trained import TrainedModel
from kgcore.errors import InputError, MismatchError
from kgcore.evidence.base import Source
from kgcore.evidence.scores import Cohorts, OtherScores
from kgcore.evidence.table import Features
from kgcore.registries import CALIBRATORS
from tests.core.calibrated_models import trained_on, write_calibrated
from tests.core.calibrator_samples import bound_to

GROUPS = ("score", "degrees", "other_scores")
MODELS = ("transe", "distmult", "complex")


@pytest.fixture
def models(small_graph: KnowledgeGraph) -> list[TrainedModel]:
    return [trained_on(small_graph, model=name) for name in MODELS]


def source_of(graph: KnowledgeGraph, models: list[TrainedModel]) -> Source:
    return Source(graph, models[0], tuple(models[1:]))


def calibrated(graph: KnowledgeGraph, models: list[TrainedModel]) -> CalibratedModel:
    """Fit a combiner of the scores of all models to the labelled validation triples, and a calibrator to it."""
    evidence = Features.of(source_of(graph, models), GROUPS).evidence(graph.valid.triples)
    labels, predicates = graph.valid.labels, graph.valid.triples[:, 1]
    sample = EvidenceSample(evidence.names, evidence.values, labels, np.ones(len(labels)), predicates)
    trees, others = BoostedTrees(trees=10, fewest=5), tuple(model.fingerprint() for model in models[1:])
    fitted = trees.fit(sample, np.random.default_rng(0))
    prints = (models[0].fingerprint(), fitted, "boosted_trees", others)
    combined = Combined("boosted_trees", GROUPS, evidence.names, *prints)
    scores = ground_truth_sample(combined.scores(evidence, predicates), labels, predicates)
    platt, support = CALIBRATORS.get("platt")().fit_sample(scores), Support.fit(scores, by_predicate=False)
    own = ("platt", "ground_truth", scores.base_rate, combined.fingerprint(), graph.fingerprint(), platt)
    bound = bound_to(*own, support=support, scorer=combined)
    return CalibratedModel(bound.scorer_of(models, graph), bound, graph)


def test_the_features_are_those_that_the_models_would_have_as_the_first_model(
    small_graph: KnowledgeGraph, models: list[TrainedModel]
) -> None:
    group, triples = OtherScores.of(source_of(small_graph, models)), small_graph.test.triples
    values = dict(zip(group.names, group.values(triples).T, strict=True))
    for number, model in enumerate(models[1:], start=2):
        alone = Source(small_graph, model)
        expected = dict(zip(Cohorts.names, Cohorts.of(alone).values(triples).T, strict=True))
        expected["score"] = model.score(triples)
        own = {name: column for name, column in values.items() if name.startswith(f"model_{number}_")}
        assert own
        for name, column in own.items():
            np.testing.assert_array_equal(column, expected[name.removeprefix(f"model_{number}_")], err_msg=name)
    assert len(group.names) == len(set(group.names))
    assert OtherScores.own(("score", *group.names, "object_rank")) == group.names


def test_without_further_models_there_are_no_features(small_graph: KnowledgeGraph, models: list[TrainedModel]) -> None:
    group = OtherScores.of(Source(small_graph, models[0]))
    assert group.names == ()
    assert group.values(small_graph.test.triples).shape == (len(small_graph.test), 0)


def probabilities(model: CalibratedModel, triples: Triples) -> np.ndarray:
    return model.predict(model.graph.names_of(triples))[1]


def test_a_packed_model_answers_and_explains_as_before(
    small_graph: KnowledgeGraph, models: list[TrainedModel], tmp_path: Path
) -> None:
    model, triples = calibrated(small_graph, models), small_graph.test.triples
    write_calibrated(tmp_path, model)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("calibrator.json", "graph", "model", "model_2", "model_3")
    ]
    loaded = kgcore.load(tmp_path)
    expected = probabilities(model, triples)
    np.testing.assert_array_equal(probabilities(loaded.calibrated, triples), expected)
    assert len(np.unique(expected)) > 10
    [names] = small_graph.names_of(triples[:1]).to_numpy().tolist()
    found = loaded.explain(*names)
    assert found == Explainer(model).about(*names)
    assert isinstance(found, Explanation)
    assert {"model_2_score", "model_3_score"} <= {part.feature for part in found.contributions}
    total = sum(part.log_odds for part in found.contributions)
    assert total == pytest.approx(np.log(expected[0] / (1 - expected[0])), abs=1e-9)


def test_a_further_model_that_is_missing_or_another_one_is_named(
    small_graph: KnowledgeGraph, models: list[TrainedModel], tmp_path: Path
) -> None:
    write_calibrated(tmp_path, calibrated(small_graph, models))
    (tmp_path / "model_2").rename(tmp_path / "kept")
    assert missing_parts(tmp_path) == ["model_2"]
    with pytest.raises(InputError, match="has no complete model_2"):
        kgcore.load(tmp_path)
    assert read_calibrated(tmp_path, {"model_2": tmp_path / "kept"}).trained.sizes == (40, 3)
    shutil.copytree(tmp_path / "model_3", tmp_path / "model_2")
    with pytest.raises(MismatchError, match=r"was fitted to the model \w+, but the model there is"):
        kgcore.load(tmp_path)


def test_the_order_and_the_identity_of_further_models_are_part_of_the_fingerprint(
    small_graph: KnowledgeGraph, models: list[TrainedModel]
) -> None:
    combined = calibrated(small_graph, models).calibrator.combined
    assert combined is not None
    assert Combined.from_json(combined.to_json()).fingerprint() == combined.fingerprint()
    swapped = replace(combined, others=combined.others[::-1])
    assert len({one.fingerprint() for one in (combined, swapped, replace(combined, others=()))}) == 3
