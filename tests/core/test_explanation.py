"""Explanations: equal to answers, ranks and cosines computed otherwise; names, words and JSON."""

import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from kgcore.answer.answers import Answers, table_of
from kgcore.answer.calibrated_model import CalibratedModel
from kgcore.answer.explainer import Explainer
from kgcore.answer.explanation import Explanation
from kgcore.answer.explanation_page import explanation_figure, explanation_page
from kgcore.answer.question import near_names
from kgcore.calibrate.sample import shift
from kgcore.config import ExplainConfig
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.models.cohort import draw_cohort
from kgcore.embed.ranking import filtered_ranks
from kgcore.errors import InputError
from kgcore.measure.metrics.base import percent
from kgcore.registries import CALIBRATORS, MODELS
from tests.core.calibrated_models import calibrated, calibrated_and_sample

SMALL = ExplainConfig(alternatives=7, facts=4)


def names_of(graph: KnowledgeGraph, triples: np.ndarray) -> list[tuple[str, str, str]]:
    return [tuple(row) for row in graph.names_of(triples).to_numpy().tolist()]


def answered(model: CalibratedModel, triples: list[tuple[str, str, str]]) -> list[tuple[float, float, float, float]]:
    table = Answers(model, 0.5, 0).table(table_of(triples))
    return [tuple(row.values()) for row in table.select(["score", "probability", "low", "high"]).to_pylist()]


@pytest.mark.parametrize("name", MODELS.names())
def test_scores_and_probabilities_are_those_of_predict_to_the_bit(small_graph: KnowledgeGraph, name: str) -> None:
    model, sample = calibrated_and_sample(small_graph, model=name)
    explainer = Explainer(model, sample, SMALL)
    for s, p, o in names_of(small_graph, small_graph.test.triples[::50]):
        made = explainer.explain(s, p, o)
        shown = [(s, p, o)]
        shown += [(s, p, one.name) for one in made.objects.best] + [(one.name, p, o) for one in made.subjects.best]
        found = [
            (one.score, one.probability, one.low, one.high) for one in (made, *made.objects.best, *made.subjects.best)
        ]
        assert found == answered(model, shown)


@pytest.mark.parametrize("name", MODELS.names())
def test_ranks_are_the_filtered_ranks(small_graph: KnowledgeGraph, name: str) -> None:
    model, sample = calibrated_and_sample(small_graph, model=name)
    triples = small_graph.test.triples[::30]
    ranks = filtered_ranks(model.trained, triples, small_graph.all_known)
    explainer = Explainer(model, sample, SMALL)
    for triple, (subject_rank, object_rank) in zip(names_of(small_graph, triples), ranks, strict=True):
        made = explainer.explain(*triple)
        assert (made.subjects.rank, made.objects.rank) == (subject_rank, object_rank)


def test_alternatives_are_the_best_entities_that_make_no_known_fact(small_graph: KnowledgeGraph) -> None:
    model, sample = calibrated_and_sample(small_graph)
    triple = small_graph.train.triples[3]
    [(s, p, o)] = names_of(small_graph, triple[None])
    made = Explainer(model, sample, SMALL).explain(s, p, o)
    every = np.repeat(triple[None], 40, axis=0)
    every[:, 2] = np.arange(40)
    free = ~small_graph.all_known.contains(every)
    assert made.objects.among == free.sum() + 1
    assert made.objects.known == 40 - free.sum() - 1
    free[triple[0]] = False  # no training fact has the same subject and object
    order = np.argsort(-model.trained.score(every[free]))
    assert [one.name for one in made.objects.best] == [f"e{i}" for i in np.flatnonzero(free)[order][:7]]


def test_an_entity_is_its_own_alternative_only_if_training_has_such_facts(small_graph: KnowledgeGraph) -> None:
    model = calibrated(small_graph)
    loops = np.array([[7, 1, 7]])
    train = Split(np.concatenate([small_graph.train.triples, loops]), np.ones(len(small_graph.train) + 1))
    both = model, replace(model, graph=replace(small_graph, train=train))
    alone, with_loops = (Explainer(one, None, ExplainConfig(alternatives=40)).explain("e1", "p1", "e2") for one in both)
    names = [{one.name for one in side.best} for side in (alone.objects, with_loops.objects)]
    assert names[1] - names[0] == {"e1"}
    assert len(names[0]) == alone.objects.among - 2
    assert with_loops.objects.rank == alone.objects.rank
    own = next(one.score for one in with_loops.objects.best if one.name == "e1")
    assert (alone.objects.itself, with_loops.objects.itself) == (own > alone.score, False)
    assert any("; e1 itself ranks higher" in sentence for sentence in alone.sentences) == alone.objects.itself


def test_with_a_cohort_the_best_subjects_have_the_highest_normalised_scores(small_graph: KnowledgeGraph) -> None:
    model, sample = calibrated_and_sample(small_graph)
    trained = replace(model.trained, cohort=draw_cohort(small_graph, 9, 0.9, 0.3, np.random.default_rng(2)))
    model = replace(model, trained=trained, calibrator=replace(model.calibrator, model=trained.fingerprint()))
    triple = small_graph.train.triples[5]
    made = Explainer(model, sample, SMALL).explain(*names_of(small_graph, triple[None])[0])
    every = np.repeat(triple[None], 40, axis=0)
    every[:, 0] = np.arange(40)
    free = ~small_graph.all_known.contains(every)
    free[triple[2]] = False
    order = np.argsort(-trained.score(every[free]))
    assert [one.name for one in made.subjects.best] == [f"e{i}" for i in np.flatnonzero(free)[order][:7]]
    [subject_rank, _] = filtered_ranks(trained, triple[None], small_graph.all_known)[0]
    assert made.subjects.rank == subject_rank
    assert "Ranks compare the scores before cohort normalisation, as `kgcal rank` does." in made.sentences


@pytest.mark.parametrize("name", ["transe", "complex", "kg2e"])
def test_the_nearest_facts_have_the_highest_mean_cosine(small_graph: KnowledgeGraph, name: str) -> None:
    model, sample = calibrated_and_sample(small_graph, model=name)
    s, p, o = triple = small_graph.valid.triples[100]
    support = Explainer(model, sample, SMALL).explain(*names_of(small_graph, triple[None])[0]).support
    table = model.trained.embeddings.entities.numpy().astype(np.float64)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    graph = small_graph
    every = np.unique(np.concatenate([split.positives for split in (graph.train, graph.valid, graph.test)]), axis=0)
    own = every[(every[:, 1] == p) & (every != triple).any(axis=1)]
    similarity = (table[own[:, 0]] @ table[s] + table[own[:, 2]] @ table[o]) / 2
    same_subject, same_object = own[:, 0] == s, own[:, 2] == o
    groups = (
        (support.same_subject, same_subject),
        (support.same_object, same_object),
        (support.others, ~same_subject & ~same_object),
    )
    for found, rows in groups:
        assert found.count == rows.sum()
        np.testing.assert_allclose(
            [f.similarity for f in found.nearest], np.sort(similarity[rows])[::-1][:4], atol=1e-6
        )
        for fact in found.nearest:
            assert fact.similarity == pytest.approx((fact.subject_similarity + fact.object_similarity) / 2)
            [number] = graph.number(table_of([(fact.subject, f"p{p}", fact.object)]).to_pandas())[0]
            assert graph.index(getattr(graph, fact.split).positives).contains(number[None])


def test_a_known_fact_and_a_labelled_negative_are_named(small_graph: KnowledgeGraph) -> None:
    model, sample = calibrated_and_sample(small_graph)
    explainer = Explainer(model, sample, SMALL)
    for split in ("train", "valid", "test"):
        made = explainer.explain(*names_of(small_graph, getattr(small_graph, split).positives[:1])[0])
        assert (made.known, made.labelled_false) == (split, False)
        assert (
            f"known fact of the {split.replace('train', 'training').replace('valid', 'validation')} split"
            in made.sentences[2]
        )
    made = explainer.explain(*names_of(small_graph, small_graph.test.negatives[:1])[0])
    assert (made.known, made.labelled_false) == ("", True)
    assert made.sentences[2] == "The data set labels the triple as false."


@pytest.mark.parametrize("calibrator", CALIBRATORS.names())
def test_other_base_rates_shift_the_probability_and_its_interval(small_graph: KnowledgeGraph, calibrator: str) -> None:
    model, sample = calibrated_and_sample(small_graph, calibrator)
    model = replace(model, calibrator=model.calibrator.at(0.2))
    made = Explainer(model, sample, SMALL).explain(*names_of(small_graph, small_graph.test.triples[9:10])[0])
    assert [row.base_rate for row in made.at_base_rates] == [0.5, 0.2, 0.1, 0.01, 0.001]
    own = made.at_base_rates[1]
    assert (own.probability, own.low, own.high) == (made.probability, made.low, made.high)
    model = replace(model, calibrator=model.calibrator.at(0.0999))
    assert len(Explainer(model, sample, SMALL).explain(made.subject, made.predicate, made.object).at_base_rates) == 4
    for row in made.at_base_rates:
        expected = shift(np.array([made.probability, made.low, made.high]), 0.2, row.base_rate)
        np.testing.assert_allclose([row.probability, row.low, row.high], expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("calibrator", ["isotonic", "per_relation"])
def test_the_curve_passes_through_the_triple(small_graph: KnowledgeGraph, calibrator: str) -> None:
    model, sample = calibrated_and_sample(small_graph, calibrator)
    made = Explainer(model, sample, SMALL).explain(*names_of(small_graph, small_graph.test.triples[4:5])[0])
    curve = made.curve
    assert curve is not None
    place = curve.scores.index(made.score)
    assert (curve.probabilities[place], curve.low[place], curve.high[place]) == (made.probability, made.low, made.high)
    assert list(curve.scores) == sorted(set(curve.scores))
    assert (np.diff(curve.probabilities) >= 0).all()


def test_a_predicate_with_too_little_data_has_a_reason_and_everything_else(small_graph: KnowledgeGraph) -> None:
    model, sample = calibrated_and_sample(small_graph)
    support = model.calibrator.support
    assert support is not None
    model = replace(
        model, calibrator=replace(model.calibrator, support=replace(support, rows={**support.rows, 1: (40, 3)}))
    )
    explainer = Explainer(model, sample, ExplainConfig(at_least=4))
    made = explainer.explain("e1", "p1", "e2")
    assert made.sentences[0].startswith(
        "No probability: there is too little calibration data for the predicate p1: 40 true and 3 false triples, and "
        "at least 4 of each are needed (frequent predicates: p"
    )
    assert (made.probability, made.low, made.high, made.curve, made.at_base_rates) == (None, None, None, None, ())
    assert made.objects.best
    assert made.support.others.nearest
    assert {one.probability for one in made.objects.best} == {None}
    assert explanation_figure(made) is None
    assert "No probability" in page_text(made)
    assert explainer.explain("e1", "p0", "e2").probability is not None


def test_a_curve_for_each_predicate_is_advised_only_if_the_calibrator_saw_several(small_graph: KnowledgeGraph) -> None:
    model, sample = calibrated_and_sample(small_graph)
    assert sample.predicates is not None
    true = replace(sample, labels=np.where(sample.predicates == 1, 1.0, sample.labels))  # more than the calibrator says
    support, advice = model.calibrator.support, "the calibrator `per_relation` has a curve for each predicate"
    assert support is not None
    of_one = replace(model.calibrator, support=replace(support, rows={1: support.rows[1]}))
    for calibrator, is_advised in ((model.calibrator, True), (of_one, False)):
        made = Explainer(replace(model, calibrator=calibrator), true).explain("e1", "p1", "e2")
        [fault] = [sentence for sentence in made.sentences if "for this predicate, it may be too low" in sentence]
        assert (advice in fault) == is_advised


def test_without_a_sample_there_is_no_evidence_but_a_curve(small_graph: KnowledgeGraph) -> None:
    model, sample = calibrated_and_sample(small_graph)
    made = Explainer(model, None).explain("e1", "p1", "e2")
    assert made.evidence is None
    assert "The calibration triples of this predicate are not known." in made.sentences
    whole = Explainer(model, sample).explain("e1", "p1", "e2")
    assert replace(made, evidence=whole.evidence, curve=whole.curve) == whole
    assert explanation_figure(made) is not None


def test_unknown_names_are_an_error_with_near_names_and_frequent_predicates(small_graph: KnowledgeGraph) -> None:
    explainer = Explainer(calibrated(small_graph))
    message = (
        r"^the graph small has no entity 'E12' \(near names: e12, e2, e1\) and no predicate 'likes' \(no name is near; "
        r"frequent predicates: p\d, p\d, p\d\)$"
    )
    with pytest.raises(InputError, match=message):
        explainer.explain("E12", "likes", "e3")


def test_names_in_another_order_are_recognised(small_graph: KnowledgeGraph) -> None:
    explainer = Explainer(calibrated(small_graph))
    known = r"it is a known {}: is the order subject, predicate, object\?"
    with pytest.raises(
        InputError, match=rf"no entity 'p1' \(.*{known.format('predicate')}\) and no predicate 'e1' \("
    ) as told:
        explainer.explain("p1", "e1", "e3")
    assert "it is a known entity: is the order" in str(told.value)


def test_near_names_ignore_case_and_come_nearest_first() -> None:
    known = ["Paris", "Parma", "London", "Paris_Texas"]
    assert near_names("paris", known) == ["Paris", "Paris_Texas", "Parma"]
    assert near_names("zzz", known) == []


@pytest.mark.parametrize(
    ("share", "text"), [(0.72, "72 %"), (1, "100 %"), (0, "0 %"), (0.995, "99.5 %"), (0.005, "0.5 %"), (2e-4, "0.02 %")]
)
def test_percentages(share: float, text: str) -> None:
    assert percent(share) == text


def test_json_is_plain_and_holds_the_sentences(small_graph: KnowledgeGraph) -> None:
    made = Explainer(*calibrated_and_sample(small_graph)).explain("e1", "p1", "e2")
    data = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert data["probability"] == made.probability
    assert data["sentences"] == list(made.sentences)
    assert data["objects"]["best"][0]["name"] == made.objects.best[0].name


class Text(HTMLParser):
    """Collects the text of a page, and checks that its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.found += data


def page_text(made: Explanation) -> str:
    parser = Text()
    parser.feed(explanation_page(made, "small", "models:/m-1", "abc"))
    assert parser.open == []
    return parser.found


def test_the_page_shows_the_explanation_and_needs_no_other_files(small_graph: KnowledgeGraph) -> None:
    graph = replace(small_graph, entities=["<b>&e0", *small_graph.entities[1:]])
    model, sample = calibrated_and_sample(graph)
    made = Explainer(model, sample).explain("<b>&e0", "p1", "e2")
    html, text = explanation_page(made, "small", "models:/m-1", "abc"), page_text(made)
    assert "<b>&e0 p1 e2" in text
    for part in (*made.sentences, made.text, made.objects.best[0].name, "models:/m-1"):
        assert part in text
    assert "<b>" not in html
    assert html.count("<svg") == 1
    assert "src=" not in html
    assert "<link" not in html
