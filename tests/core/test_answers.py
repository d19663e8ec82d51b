"""Answers for candidates: equal to the scores and probabilities of the model, to the bit and in any block; reasons."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from kgcore.answer.answers import Answers, table_of
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.models.cohort import draw_cohort
from kgcore.errors import InputError
from kgcore.registries import MODELS
from tests.core.calibrated_models import calibrated


def names_of(graph: KnowledgeGraph, triples: np.ndarray) -> pa.Table:
    return table_of(graph.names_of(triples).to_numpy().tolist())


@pytest.mark.parametrize("calibrator", ["isotonic", "per_relation"])
def test_answers_are_those_of_the_model_and_the_calibrator(small_graph: KnowledgeGraph, calibrator: str) -> None:
    model, test = calibrated(small_graph, calibrator), small_graph.test
    answers = Answers(model, threshold=0.4, at_least=1).table(names_of(small_graph, test.triples))
    scores = model.trained.score(test.triples)
    q = model.calibrator.predict(scores, model.trained.fingerprint(), test.triples[:, 1])
    np.testing.assert_array_equal(answers["score"].to_numpy(), scores)
    np.testing.assert_array_equal(answers["probability"].to_numpy(), q)
    np.testing.assert_array_equal(answers["decision"].to_numpy(), q > 0.4)
    np.testing.assert_array_equal(answers["known"].to_numpy(), test.labels == 1)
    assert (answers["low"].to_numpy() <= q).all()
    assert (q <= answers["high"].to_numpy()).all()
    assert answers["reason"].null_count == len(test)


@pytest.mark.parametrize("name", MODELS.names())
def test_no_bit_of_an_answer_depends_on_its_block(small_graph: KnowledgeGraph, name: str) -> None:
    model, rng = calibrated(small_graph, model=name), np.random.default_rng(5)
    cohort = draw_cohort(small_graph, 30, 0.5, 1.0, rng)
    trained = replace(model.trained, cohort=cohort)
    bound = replace(model.calibrator, model=trained.fingerprint())
    answers = Answers(CalibratedModel(trained, bound, small_graph), 0.5, 0)
    names = names_of(small_graph, small_graph.train.triples)
    whole = answers.table(names)
    for start, size in ((0, 1), (7, 1), (599, 1), (3, 64), (10, 257)):
        fresh = replace(answers, model=replace(answers.model, trained=replace(trained)))  # without known levels
        assert fresh.table(names.slice(start, size)).equals(whole.slice(start, size)), (start, size)


def test_a_triple_without_an_answer_has_a_reason(small_graph: KnowledgeGraph) -> None:
    triples = [
        ("e1", "p0", "e2"),
        ("?", "p0", "e2"),
        ("e1", "?", "e2"),
        ("e1", "p0", "?"),
        ("?", "?", "?"),
        ("?", "p0", "!"),
    ]
    answers = Answers(calibrated(small_graph), 0.5, 1).table(table_of(triples))
    assert answers["reason"].to_pylist() == [
        None,
        "unknown subject",
        "unknown predicate",
        "unknown object",
        "unknown subject and predicate and object",
        "unknown subject and object",
    ]
    for column in ("score", "probability", "low", "high", "decision", "known"):
        assert answers[column].is_null().to_pylist() == [False, *[True] * 5]


def test_a_predicate_with_too_little_calibration_data_has_a_score_alone(small_graph: KnowledgeGraph) -> None:
    model = calibrated(small_graph)
    support = model.calibrator.support
    assert support is not None
    rows = {**support.rows, 1: (40, 3)}
    model = replace(model, calibrator=replace(model.calibrator, support=replace(support, rows=rows)))
    names = table_of([("e1", "p0", "e2"), ("e1", "p1", "e2")])
    answers = Answers(model, 0.5, at_least=4).table(names)
    assert answers["reason"].to_pylist() == [None, "too little calibration data for the predicate"]
    assert answers["score"].null_count == 0
    for column in ("probability", "low", "high", "decision"):
        assert answers[column].is_null().to_pylist() == [False, True]
    assert Answers(model, 0.5, at_least=3).table(names)["reason"].null_count == 2


def test_further_columns_are_kept_and_columns_of_answers_are_refused(small_graph: KnowledgeGraph) -> None:
    answers = Answers(calibrated(small_graph), 0.5, 0)
    names = table_of([("e1", "p0", "e2")])
    kept = answers.table(names.append_column("note", pa.array(["mine"])))
    assert kept.column_names[:5] == ["subject", "predicate", "object", "note", "score"]
    with pytest.raises(InputError, match="the candidates already have the columns low of the answers: leave them out"):
        answers.table(names.append_column("low", pa.array([1.0])))


def test_no_candidates_have_no_answers(small_graph: KnowledgeGraph) -> None:
    assert len(Answers(calibrated(small_graph), 0.5, 1).table(table_of([]))) == 0
