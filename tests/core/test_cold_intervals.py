"""Figures of a test split by cold entities: the rows of an entity vary together."""

from dataclasses import replace

import numpy as np
import pytest

from kgcore.config import EvaluateConfig
from kgcore.measure.evaluation.evaluate import evaluate
from kgcore.measure.metrics.base import Sample
from kgcore.measure.metrics.reliability import _clustered, _equal_mass_starts, debiased_rmsce, debiased_square
from tests.core.judged import FAST, predictions
from tests.core.samples import tally_of


def test_cold_entities_are_resampled_whole(rng: np.random.Generator) -> None:
    """20 entities, whose rows are all true or all false: the Brier score varies as that of 20 rows."""
    entity = np.repeat(np.arange(20), 50)
    y = (np.arange(20) % 2)[entity].astype(float)
    rows = replace(
        predictions({"a": np.full(1000, 0.3)}, y),
        triples=np.stack([rng.integers(0, 9, 1000), 0 * entity, entity], axis=1),
    )
    config = EvaluateConfig(bootstrap_replicates=400)
    alone, whole = (evaluate(rows, config, cold=cold)["a"] for cold in (None, 2))
    assert alone.metrics["brier"] == whole.metrics["brier"]
    assert whole.metrics["debiased_rmsce"] == pytest.approx(np.sqrt(0.2**2 - 0.5**2 / 19))  # 20 clusters of mean 0 or 1
    width = {name: np.diff(one.intervals["brier"])[0] for name, one in (("alone", alone), ("whole", whole))}
    assert width["whole"] / width["alone"] == pytest.approx(np.sqrt(50), rel=0.15)


def test_corruptions_are_resampled_with_the_cold_entity_of_their_positive(rng: np.random.Generator) -> None:
    y = np.r_[np.ones(40), np.zeros(80)]
    source = np.repeat(np.arange(40), 2)
    entity = rng.integers(0, 6, 40)
    triples = np.zeros((120, 3), dtype=np.int64)
    triples[:, 2] = np.r_[entity, entity[source]]
    rows = replace(predictions({"a": rng.random(120)}, y), triples=triples)
    by_source = evaluate(rows, FAST, source=source, cold=2)
    moved = replace(rows, triples=np.where(np.arange(120)[:, None] < 40, triples, 99))  # only the positives matter
    assert evaluate(moved, FAST, source=source, cold=2)["a"].intervals == by_source["a"].intervals
    assert evaluate(rows, FAST, cold=2)["a"].intervals == by_source["a"].intervals


def squares(rng: np.random.Generator, clusters: bool) -> float:
    """Return the debiased square of calibrated probabilities of 60 entities, each with an effect on all its rows."""
    entity, base = rng.integers(0, 60, 1500), rng.normal(0, 1.2, 1500)
    effects = rng.normal(0, 0.7, 60)[entity]
    q = np.mean(1 / (1 + np.exp(-base - rng.normal(0, 0.7, (500, 1)))), axis=0)  # over all entities
    y = (rng.random(1500) < 1 / (1 + np.exp(-base - effects))).astype(float)
    sample = Sample(q, y, clusters=entity if clusters else None)
    return debiased_square(sample.tally(), sample.once(_equal_mass_starts)) - sample.once(_clustered)


def test_the_debiased_error_of_calibrated_probabilities_is_zero_on_average_if_entities_have_effects() -> None:
    alone, whole = (
        np.array([squares(np.random.default_rng(seed), clusters) for seed in range(100)]) for clusters in (False, True)
    )
    error = whole.std() / np.sqrt(len(whole))
    assert abs(whole.mean()) < 3 * error
    assert alone.mean() > 3 * error  # the variance of single rows is too small


def test_without_effects_of_clusters_nothing_changes(rng: np.random.Generator) -> None:
    q, y, w = rng.random(300), (rng.random(300) < 0.5).astype(float), rng.random(300) + 0.5
    single = Sample(q, y, w, clusters=rng.permutation(300))
    assert debiased_rmsce(single.tally()) == pytest.approx(debiased_rmsce(tally_of(q, y, w)))
