"""Corruption strategies: what each must do, and which entities it draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from kgcore.calibrate.sample import ground_truth_sample, synthetic_sample
from kgcore.calibrate.validation import score_audit
from kgcore.config.base import SIDES
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.embed.corruptions.base import OBJECT, SUBJECT, Mixture, Strategy, corrupt, subject_shares
from kgcore.embed.corruptions.held_out import audit, corrupt_held_out
from kgcore.embed.corruptions.similar import entity_vectors
from kgcore.errors import InputError
from kgcore.registries import STRATEGIES
from tests.core.drawn import drawing, graph_of


@pytest.mark.parametrize("name", STRATEGIES.names())
@pytest.mark.parametrize("sides", SIDES)
def test_exactly_one_side_changes_and_never_the_predicate(small_graph, rng, name: str, sides: str) -> None:
    positives = small_graph.valid.positives
    made = corrupt(positives, 5, drawing(name, small_graph), rng, subject_shares(small_graph, sides))
    changed = made.triples != positives[made.source]
    assert len(made.triples) == 5 * len(positives)
    assert not changed[:, 1].any()
    assert (changed.sum(axis=1) == 1).all()
    assert made.triples.min() >= 0
    assert made.triples[:, [0, 2]].max() < len(small_graph.entities)
    share = changed[:, 0].mean()
    assert share == {"subject": 1, "object": 0}.get(sides, pytest.approx(0.5, abs=0.1))


@pytest.mark.parametrize("name", ["uniform", "kbgan"])  # an untrained generator draws uniformly
def test_uniform_draws_every_other_entity_with_equal_probability(
    small_graph, rng: np.random.Generator, name: str
) -> None:
    uniform = STRATEGIES.get(name)(small_graph)
    triples = np.tile([[0, 0, 39], [17, 1, 5]], (4000, 1))
    for column in (SUBJECT, OBJECT):
        for true in np.unique(triples[:, column]):
            drawn = uniform.draw(triples[triples[:, column] == true], column, 5, rng)
            counts = np.bincount(drawn.ravel(), minlength=40)
            assert counts[true] == 0
            expected = drawn.size / 39
            others = np.delete(counts, true)
            assert ((others - expected) ** 2 / expected).sum() < 80  # chi-square, 38 degrees of freedom: p = 1e-4


def test_only_known_facts_are_drawn_again(small_graph: KnowledgeGraph) -> None:
    positives, uniform = small_graph.valid.positives, STRATEGIES.get("uniform")(small_graph)
    shares = subject_shares(small_graph, "both")
    free = corrupt(positives, 20, uniform, np.random.default_rng(1), shares)
    filtered = corrupt(positives, 20, uniform, np.random.default_rng(1), shares, small_graph.known)
    known = small_graph.known.contains(free.triples)
    assert known.any()
    assert (filtered.redrawn, filtered.dropped) == (known.sum(), 0)
    np.testing.assert_array_equal(filtered.triples[~known], free.triples[~known])
    np.testing.assert_array_equal(filtered.source, free.source)
    assert not small_graph.known.contains(filtered.triples).any()
    assert ((filtered.triples != positives[filtered.source]).sum(axis=1) == 1).all()


def test_corruptions_drawn_again_have_the_distribution_given_that_they_are_not_known() -> None:
    """Of ten entities, subject 0 has objects 1 to 6 in training: 0, 7, 8 and 9 are equally likely."""
    graph = graph_of([(0, 0, o) for o in range(1, 7)], 10)
    uniform, shares = STRATEGIES.get("uniform")(graph), subject_shares(graph, "object")
    made = corrupt(np.array([[0, 0, 1]]), 9000, uniform, np.random.default_rng(0), shares, graph.known)
    counts = np.bincount(made.triples[:, 2], minlength=10)
    allowed = [0, 7, 8, 9]
    assert counts.sum() == counts[allowed].sum() == 9000 - made.dropped
    assert (abs(counts[allowed] - counts.sum() / 4) < 5 * np.sqrt(counts.sum() / 4)).all()
    assert made.redrawn == pytest.approx(9000 * 5 / 9, abs=250)
    assert made.dropped == pytest.approx(9000 * (5 / 9) ** 11, abs=35)


def test_batch_corruptions_are_not_drawn_again(small_graph: KnowledgeGraph) -> None:
    """Their candidates are the triples of one draw: fewer triples have other candidates."""
    positives, shares = small_graph.valid.positives, subject_shares(small_graph, "both")
    made = corrupt(positives, 20, drawing("batch", small_graph), np.random.default_rng(1), shares, small_graph.known)
    assert made.redrawn == 0 < made.dropped


def test_validation_corruptions_are_never_filtered_by_test(small_graph: KnowledgeGraph) -> None:
    uniform = STRATEGIES.get("uniform")(small_graph)
    made = corrupt_held_out(small_graph, 200, uniform, np.random.default_rng(0), "both", filtered=True)
    assert small_graph.all_known.contains(made["valid"].triples).any()
    assert not small_graph.known.contains(made["valid"].triples).any()
    assert "test" not in made  # this split has labelled negatives


def test_bad_arguments_are_refused(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    uniform = STRATEGIES.get("uniform")(small_graph)
    with pytest.raises(InputError, match="eta is 0"):
        corrupt(small_graph.valid.positives, 0, uniform, rng, subject_shares(small_graph, "both"))
    with pytest.raises(InputError, match="sides is 'left'"):
        subject_shares(small_graph, "left")


def test_typed_draws_every_other_entity_of_the_range_with_equal_probability(small_graph: KnowledgeGraph, rng) -> None:
    typed, train = STRATEGIES.get("typed")(small_graph), small_graph.train.triples
    for column in (SUBJECT, OBJECT):
        for triple in train[:5]:
            seen = np.unique(train[train[:, 1] == triple[1], column])
            others = np.setdiff1d(seen, triple[column])
            drawn = typed.draw(np.tile(triple, (2000, 1)), column, 5, rng)
            counts = np.bincount(drawn.ravel(), minlength=40)
            assert counts[others].sum() == drawn.size
            expected = drawn.size / len(others)
            assert ((counts[others] - expected) ** 2 / expected).sum() < 90


def test_typed_of_a_range_of_one_is_uniform(rng: np.random.Generator) -> None:
    names = [f"e{i}" for i in range(6)]
    split = Split(np.array([[0, 0, 5], [1, 0, 5], [2, 1, 3], [2, 1, 4]]), np.ones(4))
    typed = STRATEGIES.get("typed")(KnowledgeGraph("lone", names, ["p", "q"], split, split, split))
    drawn = typed.draw(np.tile([[0, 0, 5]], (500, 1)), OBJECT, 4, rng)
    assert set(np.unique(drawn)) == {0, 1, 2, 3, 4}
    unseen = typed.draw(np.array([[2, 1, 0]]), OBJECT, 50, rng)  # an object that predicate q does not have in training
    assert set(np.unique(unseen)) == {3, 4}


@pytest.mark.parametrize("count", [0, 1, 4, 20, 7])
def test_a_mixture_keeps_its_shares(small_graph: KnowledgeGraph, rng: np.random.Generator, count: int) -> None:
    mixture = Mixture(small_graph, {"typed": 1, "uniform": 3})
    assert mixture.by_predicate
    drawn = mixture.draw(small_graph.train.triples, OBJECT, count, rng)
    assert drawn.shape == (len(small_graph.train), count)
    drawn_by_typed = [mixture._counts(count, rng)[0] for _ in range(2000)]
    assert np.mean(drawn_by_typed) == pytest.approx(count / 4, abs=0.05)
    assert set(drawn_by_typed) <= {int(np.floor(count / 4)), int(np.ceil(count / 4))}
    assert (drawn != small_graph.train.triples[:, OBJECT, None]).all()


def test_a_mixture_draws_the_strategy_of_each_single_corruption(rng: np.random.Generator) -> None:
    graph = graph_of([(0, 0, 1), (0, 0, 2)] * 4, 60)  # typed has one other object, uniform 58 more
    mixture = Mixture(graph, {"typed": 3.0, "uniform": 1.0})
    made = corrupt(graph.train.triples, 500, mixture, rng, subject_shares(graph, "object"))
    for positive in range(8):
        objects = made.triples[made.source == positive, OBJECT]
        assert (objects <= 2).mean() == pytest.approx(0.75 + 0.25 / 59, abs=0.08)


def test_bernoulli_replaces_the_side_with_more_entities() -> None:
    # p0: four subjects of one object each, two objects of two subjects each: tph 1, hpt 2. p1 the other way round.
    one = [(0, 0, 4), (1, 0, 4), (2, 0, 5), (3, 0, 5)]
    graph = graph_of([*one, *((o, 1, s) for s, _, o in one)], 6)
    np.testing.assert_allclose(subject_shares(graph, "bernoulli"), [1 / 3, 2 / 3])
    np.testing.assert_allclose(subject_shares(graph, "both"), 0.5)


def test_relational_draws_entities_of_other_predicates_only(rng: np.random.Generator) -> None:
    relational = STRATEGIES.get("relational")(graph_of([(0, 0, 1), (0, 0, 2), (0, 1, 2), (0, 1, 3), (0, 2, 4)], 9))
    drawn = relational.draw(np.tile([[0, 0, 1]], (500, 1)), OBJECT, 4, rng)
    assert set(np.unique(drawn)) == {3, 4}  # 2 is in the range of p0 itself; 5 to 8 are in no range
    assert relational.fallbacks == 0
    lonely = relational.draw(np.array([[0, 0, 1]]), SUBJECT, 30, rng)  # no predicate has another subject
    assert relational.fallbacks == 30
    assert (lonely != 0).all()


def test_batch_draws_only_entities_of_the_given_triples(rng: np.random.Generator) -> None:
    batch = STRATEGIES.get("batch")(graph_of([(0, 0, 1), (2, 0, 3), (4, 0, 5)], 9))
    drawn = batch.draw(np.array([[0, 0, 1], [2, 0, 3]]), OBJECT, 400, rng)
    assert [set(np.unique(row)) for row in drawn] == [{0, 2, 3}, {0, 1, 2}]
    counts = np.bincount(drawn[0], minlength=4)[[0, 2, 3]]
    assert counts.min() > 90


def test_near_misses_score_high_and_are_no_training_facts(
    small_graph: KnowledgeGraph, rng: np.random.Generator
) -> None:
    near, typed = drawing("near_miss", small_graph), drawing("typed", small_graph)
    triples = small_graph.train.triples
    known = small_graph.index(triples)

    def corrupted(strategy: Strategy) -> np.ndarray:
        made = np.repeat(triples, 5, axis=0)
        made[:, OBJECT] = strategy.draw(triples, OBJECT, 5, rng).ravel()
        return made

    model = near.model
    assert model.score(corrupted(near)).mean() > model.score(corrupted(typed)).mean() + 1
    assert known.contains(corrupted(typed)).any()
    assert not known.contains(corrupted(near)).any()


def test_nearest_draws_close_entities(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    near, triples = drawing("nearest", small_graph), small_graph.valid.positives
    tables = near.model.embeddings.entities.numpy()
    distances = np.linalg.norm(tables[:, None] - tables, axis=-1)
    ranks = distances.argsort(1).argsort(1)  # 0 is the entity itself
    drawn = near.draw(triples, SUBJECT, 5, rng)
    assert ranks[triples[:, SUBJECT, None], drawn].mean() < 5  # the best of 20 draws from 39 entities


def test_similar_draws_entities_with_the_same_neighbours_and_no_training_facts(rng: np.random.Generator) -> None:
    # p0: 0 to 3 with objects 8 and 9, 4 to 7 with objects 10 and 11; 0 lacks the object 9, and 4 the object 11
    rows = [(s, 0, o) for s in range(8) for o in ((8, 9) if s < 4 else (10, 11)) if (s, o) not in ((0, 9), (4, 11))]
    graph = graph_of(rows, 12)
    vectors = entity_vectors(graph)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1)
    cosines = vectors @ vectors.T
    assert cosines[1:4, 1:4].min() > 0.99  # the same neighbours
    assert cosines[:4, :4].min() > cosines[:4, 4:8].max()
    similar = STRATEGIES.get("similar")(graph)
    assert not similar.by_model
    subjects = similar.draw(np.tile([[1, 0, 11]], (50, 1)), SUBJECT, 4, rng)
    assert set(np.unique(subjects)) == {2, 3}  # those like 1; 0 has fewer of its neighbours
    known = graph.index(graph.train.triples)
    drawn = similar.draw(np.tile([[1, 0, 8]], (50, 1)), SUBJECT, 4, rng).ravel()  # 0, 2 and 3 have this object in train
    made = np.stack([drawn, np.zeros_like(drawn), np.full_like(drawn, 8)], axis=1)
    assert not known.contains(made).any()


@settings(max_examples=30)
@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=30))
def test_entity_vectors_have_the_cosines_of_their_features(facts: set[tuple[int, int, int]]) -> None:
    holders: dict[tuple[object, ...], set[int]] = {}  # feature -> its entities
    for s, p, o in facts:
        for entity, feature in ((s, ("out", p, o)), (o, ("in", p, s)), (s, ("out", p)), (o, ("in", p))):
            holders.setdefault(feature, set()).add(entity)
    table = np.zeros((10, len(holders)))
    for column, entities in enumerate(holders.values()):
        table[list(entities), column] = np.log(1 + 10 / len(entities))
    with_facts = table.any(axis=1)
    table, vectors = table[with_facts], entity_vectors(graph_of(sorted(facts), 10))[with_facts]
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, unit @ unit.T, atol=1e-8)


@pytest.mark.parametrize(("wide", "error"), [(10**9, 1e-8), (0, 1e-4)])
def test_entity_vectors_of_a_large_graph_are_those_of_a_dense_decomposition(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, wide: int, error: float
) -> None:
    rows = np.unique(np.c_[rng.integers(0, 80, 600), rng.integers(0, 3, 600), rng.integers(0, 80, 600)], axis=0)
    graph = graph_of([tuple(row) for row in rows.tolist()], 80)
    dense = entity_vectors(graph)
    monkeypatch.setattr("kgcore.embed.corruptions.similar.DENSE", 10)
    monkeypatch.setattr("kgcore.embed.corruptions.similar.WIDE", wide)
    np.testing.assert_allclose(entity_vectors(graph) @ entity_vectors(graph).T, dense @ dense.T, atol=error)


def test_a_strategy_that_draws_by_a_model_needs_one(small_graph: KnowledgeGraph, rng: np.random.Generator) -> None:
    for name in STRATEGIES.names():
        strategy = STRATEGIES.get(name)(small_graph)
        if strategy.by_model:
            with pytest.raises(ValueError, match="this corruption strategy has no model"):
                strategy.draw(small_graph.valid.positives, OBJECT, 1, rng)


def test_draws_without_a_candidate_are_counted_as_fallbacks(rng: np.random.Generator) -> None:
    graph = graph_of([(0, 0, 3), (1, 0, 3), (2, 1, 3), (2, 1, 4)], 5)
    mixture = Mixture(graph, {"typed": 1.0})
    mixture.draw(graph.train.triples, OBJECT, 4, rng)
    assert mixture.fallbacks == 8  # p0 has one object
    assert not Mixture(graph, {"uniform": 1.0}).by_model
    assert Mixture(graph, {"uniform": 1.0, "nearest": 1.0}).by_model


def test_the_audit_counts_true_corruptions(small_graph: KnowledgeGraph) -> None:
    uniform = drawing("uniform", small_graph)
    made = corrupt_held_out(small_graph, 50, uniform, np.random.default_rng(0), "object", filtered=False)["valid"]
    figures = audit(small_graph, "valid", made)
    facts = {
        name: set(map(tuple, getattr(small_graph, name).positives.tolist())) for name in ("train", "valid", "test")
    }
    rows = list(map(tuple, made.triples.tolist()))
    for name, known in facts.items():
        assert figures[f"true_in_{name}"] == pytest.approx(sum(row in known for row in rows) / len(rows))
        assert figures[f"true_in_{name}"] > 0
    assert figures["corruptions"] == len(rows)
    assert figures["equal_to_source"] == figures["on_subject"] == 0
    held = {(p, o) for _, p, o in facts["train"]}
    assert figures["outside_range"] == pytest.approx(sum((p, o) not in held for _, p, o in rows) / len(rows))


def test_the_audit_of_filtered_typed_corruptions_finds_no_known_facts(small_graph: KnowledgeGraph) -> None:
    typed = corrupt_held_out(small_graph, 5, drawing("typed", small_graph), np.random.default_rng(0), "both", True)
    filtered = audit(small_graph, "valid", typed["valid"])
    assert filtered["true_in_train"] == filtered["true_in_valid"] == filtered["outside_range"] == 0
    assert filtered["redrawn"] > 0
    assert filtered["dropped"] == filtered["alone"] == 0
    assert filtered["on_subject"] == pytest.approx(0.5, abs=0.1)


def test_overlap_is_one_minus_auroc_and_weights_lower_the_effective_sample_size(rng: np.random.Generator) -> None:
    scores, labels = rng.integers(0, 6, 300).astype(float), (rng.random(300) < 0.3).astype(float)
    sample = synthetic_sample(scores[labels == 1], scores[labels == 0], 0.1)
    figures = score_audit(sample)
    assert figures["overlap"] == pytest.approx(1 - roc_auc_score(labels, scores))
    assert figures["effective_sample_size"] < 300
    assert score_audit(ground_truth_sample(scores, labels))["effective_sample_size"] == pytest.approx(300)
