"""Discovery of missing facts: equal to a search through all triples; candidates, blocks of queries, frequent flyers."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from kgcore.answer.answer_sets import sets_by_predicate
from kgcore.answer.discovery import Discovery, frequent_flyers
from kgcore.answer.domains import Domains
from kgcore.answer.population.draw import ranked_by
from kgcore.answer.population.population import Population
from kgcore.answer.queries import PredicateQueries, best_answers, score_blocks
from kgcore.answer.question import Question
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import OBJECT, SUBJECT
from kgcore.embed.models.cohort import draw_cohort
from kgcore.embed.models.trained import TrainedModel
from kgcore.errors import InputError
from kgcore.workers import one_by_one
from tests.core.calibrated_models import calibrated, trained_on


def discovery_of(graph: KnowledgeGraph, calibrator: str = "isotonic") -> Discovery:
    return Discovery(calibrated(graph, calibrator), Domains(graph, is_typed=False), 0)


def every_missing(graph: KnowledgeGraph) -> np.ndarray:
    numbers = np.arange(len(graph.entities))
    every = np.stack(np.meshgrid(numbers, np.arange(len(graph.predicates)), numbers), -1).reshape(-1, 3)
    false = graph.index(*(split.negatives for split in (graph.train, graph.valid, graph.test)))
    return every[~graph.all_known.contains(every) & ~false.contains(every) & (every[:, 0] != every[:, 2])]


@pytest.mark.parametrize("calibrator", ["isotonic", "per_relation"])
@pytest.mark.parametrize(
    "question", [Question(), Question(predicate=1), Question(3, 1), Question(None, 1, 5), Question(3, None, 5)]
)
def test_the_most_probable_facts_are_those_of_a_search_through_all(
    small_graph: KnowledgeGraph, calibrator: str, question: Question
) -> None:
    every, model = every_missing(small_graph), calibrated(small_graph, calibrator)
    population = Population.of_predicates(Domains(small_graph, is_typed=False), range(3))
    for column, part in enumerate((question.subject, question.predicate, question.object)):
        every = every if part is None else every[every[:, column] == part]
    scores = model.trained.score(every)
    q = model.calibrator.predict(scores, model.trained.fingerprint(), every[:, 1])
    order = np.lexsort((every[:, 2], every[:, 1], every[:, 0], -scores, -q))[:25]
    np.testing.assert_array_equal(ranked_by(model, population, question, 25), every[order])


def test_a_name_that_the_graph_does_not_have_is_reported(small_graph: KnowledgeGraph) -> None:
    discovery = discovery_of(small_graph)
    assert Question.of(small_graph, "e1", "", "e2") == Question(1, None, 2)
    with pytest.raises(InputError, match=r"has no predicate 'likes' \(no name is near; frequent predicates: p"):
        Question.of(small_graph, "e1", "likes", "")
    with pytest.raises(
        InputError, match="an answer set belongs to a query: give a predicate, and a subject or an object"
    ):
        discovery.answer_set(Question(predicate=1), 0.9)
    with pytest.raises(InputError, match="give a subject or an object, not both"):
        discovery.with_few_false(Question(1, 1, 1), 0.1, np.random.default_rng(0))


@pytest.mark.parametrize("side", [SUBJECT, OBJECT])
@pytest.mark.parametrize("has_cohort", [False, True])
@pytest.mark.parametrize("name", ["transe", "complex", "conve"])
def test_blocks_of_queries_have_the_scores_of_their_triples(
    small_graph: KnowledgeGraph, name: str, has_cohort: bool, side: int, rng: np.random.Generator
) -> None:
    trained = trained_on(small_graph, epochs=1, model=name)
    if has_cohort:
        trained = replace(trained, cohort=draw_cohort(small_graph, 30, 0.5, 1.0, rng))
    queries = PredicateQueries(1, side, np.arange(40), np.arange(5, 35), Domains(small_graph).left_out(1))
    check_blocks(trained, queries, small_graph)


def check_blocks(trained: TrainedModel, queries: PredicateQueries, graph: KnowledgeGraph) -> None:
    [(rows, scores)] = score_blocks(trained, queries)
    assert rows == slice(0, 40)
    row, column = (axis.ravel() for axis in np.indices(scores.shape))
    triples = queries.triples(row, queries.candidates[column])
    excluded = graph.all_known.contains(triples) | (triples[:, 0] == triples[:, 2])
    np.testing.assert_array_equal(np.isneginf(scores.numpy().ravel()), excluded)
    np.testing.assert_allclose(
        scores.numpy().ravel()[~excluded], trained.score(triples[~excluded]), rtol=1e-4, atol=1e-5
    )
    _, best = best_answers(trained, queries)
    highest = np.where(excluded, -np.inf, trained.score(triples)).reshape(scores.shape).max(1)
    np.testing.assert_allclose(trained.score(best), highest, rtol=1e-4, atol=1e-5)


def test_a_kept_answer_is_a_candidate_although_it_is_known(small_graph: KnowledgeGraph) -> None:
    own = small_graph.valid.positives[:5]
    own = own[own[:, 1] == own[0, 1]]
    left_out = Domains(small_graph).left_out(int(own[0, 1]))
    trained = discovery_of(small_graph).model.trained
    queries = PredicateQueries(int(own[0, 1]), OBJECT, own[:, 0], np.arange(40), left_out, own[:, 2])
    [(_, scores)] = score_blocks(trained, queries)
    np.testing.assert_allclose(scores.numpy()[np.arange(len(own)), own[:, 2]], trained.score(own), rtol=1e-4)


def test_domains_by_hand() -> None:
    """Four people live in town 4; three of them have a birthplace, so the fourth can have one; 5 is a company."""
    train = np.array([(0, 0, 4), (1, 0, 4), (2, 0, 4), (3, 0, 4), (0, 1, 4), (1, 1, 4), (2, 1, 4), (5, 2, 4)])
    split, none = Split(train, np.ones(len(train))), Split(np.zeros((0, 3), dtype=int), np.zeros(0))
    graph = KnowledgeGraph("g", [f"e{i}" for i in range(6)], ["lives_in", "born_in", "seat"], split, none, none)
    domains = Domains(graph)
    assert domains.of(1, SUBJECT).tolist() == [0, 1, 2, 3]
    assert domains.of(1, OBJECT).tolist() == [4]
    assert domains.of(2, SUBJECT).tolist() == [5]
    assert Domains(graph, is_typed=False).of(2, SUBJECT).tolist() == list(range(6))
    # the fourth person lacks a birthplace, which is no reason for doubt; a company has none, and no town lives
    asked = np.array([(3, 1, 4), (5, 1, 4), (4, 0, 4), (0, 2, 4)])
    assert domains.off_type(asked).tolist() == [False, True, True, True]
    left_out = domains.left_out(2)
    assert left_out.contains(np.array([(5, 2, 4), (3, 2, 3), (3, 2, 4)])).tolist() == [True, True, False]


def test_frequent_flyers_are_in_more_answers_than_their_facts_let_expect(small_graph: KnowledgeGraph) -> None:
    usual = small_graph.test.positives[:60]
    assert frequent_flyers(small_graph, usual, (SUBJECT, OBJECT)) == []
    many = np.concatenate([usual, np.stack([np.arange(20), np.ones(20, dtype=int), np.full(20, 39)], axis=1)])
    [flyer] = frequent_flyers(small_graph, many, (SUBJECT, OBJECT))
    assert (flyer.entity, flyer.column) == (39, OBJECT)
    assert flyer.answers == (many[:, 2] == 39).sum()
    assert 0 < flyer.expected < 10
    assert frequent_flyers(small_graph, many, (SUBJECT,)) == []


def in_reverse(function, shared, parts):
    """Do the parts in the opposite order, with copies of what they share, as machines of a cluster could."""
    for number in reversed(range(len(parts))):
        yield number, function(*pickle.loads(pickle.dumps(shared)), parts[number])


def test_a_discovery_has_the_same_result_however_its_parts_are_done(small_graph: KnowledgeGraph, monkeypatch) -> None:
    monkeypatch.setattr("kgcore.answer.population.draw.SUBJECTS_AT_ONCE", 7)
    discovery = discovery_of(small_graph)
    population = Population.of_predicates(discovery.domains, range(3))
    best = [ranked_by(discovery.model, population, Question(), 30, way) for way in (one_by_one, in_reverse)]
    np.testing.assert_array_equal(*best)
    seen: list[float] = []
    ways = ({"on_part": seen.append}, {"each_part": in_reverse})
    monkeypatch.setattr("kgcore.answer.selection.MOST_NEEDED", np.inf)
    monkeypatch.setattr("kgcore.answer.selection.FEWEST_QUERIES", 2)
    few = [discovery.with_few_false(Question(), 0.9, np.random.default_rng(5), **way)[2] for way in ways]
    assert len(few[0].triples) > 0
    np.testing.assert_array_equal(few[0].triples, few[1].triples)
    np.testing.assert_array_equal(few[0].p_values, few[1].p_values)
    asked = discovery.model.trained, small_graph, discovery.domains, range(3), 0.8
    sets = [sets_by_predicate(*asked, **way) for way in ways]
    assert sets[0] == sets[1]
    assert [(one.predicate, one.side) for one in sets[0]] == [(p, side) for p in range(3) for side in (OBJECT, SUBJECT)]


def test_the_sets_of_a_predicate_have_the_coverage_of_its_answer_sets_and_progress(small_graph: KnowledgeGraph) -> None:
    discovery, seen = discovery_of(small_graph), list[float]()
    _, rule, measured = discovery.answer_set(Question(3, 1), 0.8, seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1
    objects, subjects = sets_by_predicate(discovery.model.trained, small_graph, discovery.domains, [1], 0.8)
    assert (objects.side, subjects.side) == (OBJECT, SUBJECT)
    assert objects.rule == rule
    test = small_graph.test.positives
    assert measured.queries == len(test)  # the predicates of the graph are few, and share a rule
    assert objects.test.queries == (test[:, 1] == 1).sum()
