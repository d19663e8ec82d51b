"""An ensemble as a model like any other: its probabilities, pairs, missing facts, explanations and files."""

from pathlib import Path

import numpy as np
import pytest
import torch

import kgcore
from kgcore.answer.answers import Answers, table_of
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.discovery import Discovery
from kgcore.answer.domains import Domains
from kgcore.answer.explainer import Explainer
from kgcore.answer.pairs import BestPairs, best_answers_to
from kgcore.answer.population.draw import ranked_by
from kgcore.answer.population.population import Population
from kgcore.answer.queries import PredicateQueries, score_blocks
from kgcore.answer.question import Question
from kgcore.config import ClassifyConfig, TrainConfig
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Corruptions
from kgcore.embed.training.loop import train
from kgcore.errors import InputError, MismatchError
from kgcore.registries import POOLS
from kgcore.scores.table import ScoreTable, score_table
from kgcore.wings.ensembles.ensemble import PooledModel, pooled_table, pooling_of
from kgcore.wings.ensembles.fit import judge
from tests.core.calibrated_models import write_calibrated
from tests.core.ensemble_samples import fit_pools


def pooled(graph: KnowledgeGraph, pool: str = "log_odds", **config: object) -> tuple[CalibratedModel, list[ScoreTable]]:
    """Train two models, and pool them on the labelled negatives. Return the ensemble, and the members' score tables."""
    valid = graph.valid.positives
    objects = (valid[:, 2] + 1) % len(graph.entities)
    drawn = Corruptions(np.stack([valid[:, 0], valid[:, 1], objects], axis=1), np.arange(len(valid)), 0)
    settings = [TrainConfig(k=8, epochs=3, batch_size=200, model=name) for name in ("transe", "distmult")]
    models = tuple(train(graph, setting, torch.device("cpu")).model for setting in settings)
    tables = [score_table(graph, {"valid": drawn}, model) for model in models]
    ensemble = fit_pools(tables, drawn.source, pools=(pool,), **config)[0]
    return CalibratedModel(PooledModel(pooling_of(ensemble), models), ensemble, graph), tables


def probabilities(model: CalibratedModel, triples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    scores = model.trained.score(triples)
    return scores, model.calibrator.predict(scores, model.trained.fingerprint(), triples[:, 1])


@pytest.mark.parametrize("pool", POOLS.names())
@pytest.mark.parametrize("calibrator", ["isotonic", "per_relation"])
def test_a_triple_has_the_probability_that_was_evaluated_to_the_bit_alone_and_among_others(
    small_graph: KnowledgeGraph, pool: str, calibrator: str
) -> None:
    model, tables = pooled(small_graph, pool, member_calibrator=calibrator, recalibrator=calibrator)
    assert isinstance(model.trained, PooledModel)
    assert model.label == f"ground_truth.{pool}"
    ensemble = fit_pools(tables, np.arange(80), pools=(pool,), member_calibrator=calibrator, recalibrator=calibrator)[0]
    judged = judge([ensemble], tables, ("a", "b"), 0.5, ClassifyConfig()).predictions
    expected = judged.probabilities[model.label]
    names = small_graph.names_of(judged.triples)
    np.testing.assert_array_equal(model.predict(names)[1], expected)
    for rows in (slice(0, 1), slice(3, 10), slice(7, 70)):
        np.testing.assert_array_equal(model.predict(names[rows])[1], expected[rows])
    again = pooled_table(model.trained, tables)
    np.testing.assert_array_equal(again.scores, model.trained.score(again.triples))


def test_answers_have_intervals_and_shift_with_the_base_rate(small_graph: KnowledgeGraph) -> None:
    model, _ = pooled(small_graph)
    names = table_of(small_graph.names_of(small_graph.test.triples).to_numpy().tolist())
    before = Answers(model, 0.5, 0).table(names).to_pandas()
    assert before["low"].notna().all()
    assert (before["low"] <= before["probability"]).all()
    assert (before["probability"] <= before["high"]).all()
    after = Answers(model, 0.5, 0).under(0.1, 0.5, 0).table(names).to_pandas()
    odds = [frame["probability"] / (1 - frame["probability"]) for frame in (before, after)]
    own = model.calibrator.base_rate / (1 - model.calibrator.base_rate)
    np.testing.assert_allclose(odds[0] / odds[1], own * 9, rtol=1e-9)


@pytest.mark.parametrize("question", [Question(), Question(predicate=1), Question(3, 1), Question(None, 1, 5)])
def test_its_most_probable_facts_are_those_of_a_search_through_all(
    small_graph: KnowledgeGraph, question: Question
) -> None:
    model, _ = pooled(small_graph)
    numbers = np.arange(40)
    every = np.stack(np.meshgrid(numbers, np.arange(3), numbers), -1).reshape(-1, 3)
    false = small_graph.index(small_graph.valid.negatives, small_graph.test.negatives)
    every = every[~small_graph.all_known.contains(every) & ~false.contains(every) & (every[:, 0] != every[:, 2])]
    for column, part in enumerate((question.subject, question.predicate, question.object)):
        every = every if part is None else every[every[:, column] == part]
    scores, q = probabilities(model, every)
    order = np.lexsort((every[:, 2], every[:, 1], every[:, 0], -scores, -q))[:25]
    assert len(np.unique(q[order])) < 25, "some probabilities must be equal"
    population = Population.of_predicates(Domains(small_graph, is_typed=False), range(3))
    np.testing.assert_array_equal(ranked_by(model, population, question, 25), every[order])


@pytest.mark.parametrize("side", [SUBJECT, OBJECT])
def test_its_queries_have_the_scores_of_their_triples(small_graph: KnowledgeGraph, side: int) -> None:
    model, _ = pooled(small_graph)
    nothing = small_graph.index(np.zeros((0, 3), dtype=np.int64))
    queries = PredicateQueries(2, side, np.array([4, 0, 9]), np.arange(5, 40), nothing)
    [(_, scores)] = score_blocks(model.trained, queries)
    rows, columns = np.divmod(np.arange(3 * 35), 35)
    expected = model.trained.score(queries.triples(rows, queries.candidates[columns]))
    np.testing.assert_array_equal(scores.numpy().ravel(), expected)


def test_it_makes_answer_sets_and_lists_with_few_false_facts(small_graph: KnowledgeGraph) -> None:
    model, _ = pooled(small_graph)
    discovery = Discovery(model, Domains(small_graph, is_typed=False), 0)
    found, rule, measured = discovery.answer_set(Question(3, 1), 0.8)
    assert rule.queries > 0
    assert measured.queries > 0
    assert not small_graph.all_known.contains(found).any()
    listed, _, candidates = discovery.with_few_false(Question(predicate=1), 0.9, np.random.default_rng(0))
    assert len(listed) <= len(candidates.triples)


def test_its_explanation_has_the_probability_of_predict_and_the_rank_of_a_loop(small_graph: KnowledgeGraph) -> None:
    model, _ = pooled(small_graph)
    assert isinstance(model.trained, PooledModel)
    triple = small_graph.test.triples[5]
    made = Explainer(model).explain(*small_graph.names_of(triple[None]).iloc[0])
    score, q = probabilities(model, triple[None])
    assert (made.score, made.probability, made.calibrator) == (score[0], q[0], "ground_truth.log_odds")
    others = np.array([[triple[0], triple[1], o] for o in range(40) if o != triple[2]])
    alternatives = model.trained.score(others[~small_graph.all_known.contains(others)])
    assert made.objects.rank == 1 + (alternatives > score).sum() + (alternatives == score).sum() / 2
    cosines = [member.cosines(7) for member in model.trained.members]
    shares = model.trained.pooling.pool.shares
    np.testing.assert_allclose(model.trained.cosines(7), shares[0] * cosines[0] + shares[1] * cosines[1])
    scores = model.trained.score(best_answers_to(Question(3, 1), model, 5))
    assert (np.diff(scores) <= 0).all()


def test_it_is_loaded_from_files_and_other_files_are_refused(small_graph: KnowledgeGraph, tmp_path: Path) -> None:
    model, _ = pooled(small_graph)
    write_calibrated(tmp_path, model)
    loaded = kgcore.load(tmp_path)
    names = small_graph.names_of(small_graph.test.triples)
    np.testing.assert_array_equal(loaded.predict(names, at_least=0)["probability"], model.predict(names)[1])
    assert (loaded.label, loaded.base_rate) == ("ground_truth.log_odds", model.calibrator.base_rate)
    assert len(loaded.discover(predicate="p1", top=3)) == 3
    (tmp_path / "model").rename(tmp_path / "model_3")
    with pytest.raises(InputError, match="has no complete model"):
        kgcore.load(tmp_path)
    (tmp_path / "model_2").rename(tmp_path / "model")
    (tmp_path / "model_3").rename(tmp_path / "model_2")
    with pytest.raises(MismatchError, match="was fitted to the model"):
        kgcore.load(tmp_path)


def test_a_stream_of_exact_scores_keeps_no_more_than_the_best(rng: np.random.Generator) -> None:
    kept = BestPairs(10, 1)
    pairs = rng.permutation(40_000)[:, None].repeat(2, axis=1)
    for part in np.array_split(pairs, 8):
        kept.add(np.zeros(len(part)), np.zeros(len(part)), part, np.zeros(len(part), dtype=np.int64))
    np.testing.assert_array_equal(np.sort(kept.pairs()[:, 0]), np.arange(10))  # of equal scores, the first pairs
