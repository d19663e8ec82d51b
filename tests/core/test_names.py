"""Evidence from names: words by hand, lifts by hand and by a second count, and what must not change them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.data.graph import Split
from kgcore.evidence.lookup import LONGEST, parts_of, trigrams_of, words_of
from kgcore.evidence.names import NAME_FOLDS, PENALTY, NameEmbeddings, matrix_of, name_folds
from kgcore.evidence.table import Features
from tests.core.names import FACTS, GROUPS, NAMES, column, features_of, source_of


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("__spiritual_bouquet_1", ("spiritual", "bouquet")),
        ("spiritualBouquet", ("spiritual", "bouquet")),
        ("http://example.org/things#red_deer", ("red", "deer")),
        ("http://example.org/things/Deer/", ("deer",)),
        ("Zoë Ångström", ("zoë", "ångström")),
        ("\uff26\uff35\uff2c\uff2c width", ("full", "width")),
        ("ΣΊΣΥΦΟΣ", ("σίσυφοσ",)),
        ("東京 大阪", ("東京", "大阪")),
        ("06845599", ()),
        ("/m/027rn", ()),
        ("Q42", ()),
        ("", ()),
        ("__", ()),
        (" ".join(["word"] * 50), ("word",) * LONGEST),
    ],
)
def test_words_by_hand(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


def test_parts_and_trigrams_by_hand() -> None:
    parts = ("red", "deer", "$deer", "-er", "-eer", "=red deer", "^red")
    assert parts_of("red_deer_1") == parts
    assert parts_of("bouquet") == ("bouquet", "$bouquet", "-et", "-uet", "-quet", "+bouq", "=bouquet")
    assert trigrams_of("red_deer_1") == (" re", "red", "ed ", " de", "dee", "eer", "er ")
    assert parts_of("Q42") == trigrams_of("Q42") == ()


def test_roles_by_hand() -> None:
    """Of 7 entities, 2 are objects of p0: `deer` and `animal`. Names with `deer`: 0, 1, 2 and 3."""
    found = column(features_of("name_roles"), "role_object_highest", [(0, 0, 2)])
    q = 1.5 / 7  # deer itself left out
    # parts of `deer` that others have, each in three names beside its own, none of them an object of p0
    assert found == pytest.approx(np.log((0 + q) / (3 + 1)) - np.log(q))
    other = column(features_of("name_roles"), "role_subject_highest", [(5, 0, 2)])
    assert np.isnan(other)  # no other name has a part of `rock`


def test_pairs_by_hand() -> None:
    """Facts of p0: red deer, roe deer, sika deer -> deer; deer -> animal. The triple is the first fact."""
    ready = features_of("name_pairs")
    # the object deer, facts without the subject: 3 facts; 2 with `deer` in the subject and the object deer
    highest = np.log((2 + 0.1) / (3 * 2 / 3 + 0.1))
    assert column(ready, "pair_subject_name_highest", [(0, 0, 2)]) == pytest.approx(highest)
    # facts without red deer and without the object deer: deer -> animal. `animal` is in no other name
    assert column(ready, "pair_words_highest", [(0, 0, 2)]) == pytest.approx(np.log(0.1 / 0.1))


def test_likeness_by_hand() -> None:
    """Idf of `deer`: log(8 / 5), of `red`: log(8 / 2)."""
    ready = features_of("name_likeness")
    deer, red = np.log(8 / 5), np.log(8 / 2)
    assert column(ready, "likeness_words", [(0, 0, 2)]) == pytest.approx(deer / (deer + red))
    assert column(ready, "likeness_subject", [(0, 0, 2)]) == pytest.approx(deer / (deer + red))
    assert column(ready, "likeness_object", [(0, 0, 2)]) == pytest.approx(1)
    assert column(ready, "likeness_words", [(4, 0, 5)]) == 0
    assert np.isnan(column(ready, "likeness_words", [(4, 0, 6)]))  # Q42 has no word


def test_estimated_embeddings_are_a_ridge_regression() -> None:
    """The second formula solves the normal equations; with unlimited steps both would agree exactly."""
    source = source_of()
    group = Features.of(source, ["name_embeddings"]).groups["name_embeddings"]
    ready = group.extended(["green_deer"])
    assert isinstance(ready, NameEmbeddings)
    table = source.trained.embeddings.entities.numpy().astype(float)
    mean, x = table.mean(axis=0), matrix_of(ready.parts).toarray()
    folds, named = name_folds(len(table)), x[: len(table)].any(axis=1)
    estimates = []
    for k in range(NAME_FOLDS):
        rows = np.flatnonzero(named & (folds != k))
        gram = x[rows].T @ x[rows] + PENALTY * np.eye(x.shape[1])
        estimates.append(mean + x @ np.linalg.solve(gram, x[rows].T @ (table[rows] - mean)))
    tables = ready.scorer.embeddings.entities.numpy()
    for entity in range(len(table)):
        np.testing.assert_allclose(tables[len(table) + entity], estimates[folds[entity]][entity], atol=1e-5)
    np.testing.assert_allclose(tables[-1], np.mean(estimates, axis=0)[-1], atol=1e-5)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_a_training_fact_is_left_out_of_its_own_evidence(seed: int) -> None:
    """The features that training facts have are those of a graph that lacks the fact. The model stays the same."""
    rng = np.random.default_rng(seed)
    facts = np.unique(np.c_[rng.integers(0, 6, 14), rng.integers(0, 2, 14), rng.integers(0, 6, 14)], axis=0)
    source = source_of(facts)
    fact = facts[rng.integers(len(facts))][None]
    rest = facts[(facts != fact).any(axis=1)]
    less = replace(source, graph=replace(source.graph, train=Split(rest, np.ones(len(rest)))))
    for name in ("name_pairs", "name_likeness"):
        np.testing.assert_array_equal(
            Features.of(source, [name]).evidence(fact).values, Features.of(less, [name]).evidence(fact).values
        )


def test_no_fact_of_an_entity_is_evidence_for_its_roles() -> None:
    """Without all other facts of the entity, its lift for a role stays the same."""
    found = features_of("name_roles").evidence(np.array([[2, 0, 4]])).values
    rest = FACTS[FACTS[:, 0] != 2]  # deer is a subject of p0 in one fact; now of none
    lift = Features.of(source_of(rest), ["name_roles"]).evidence(np.array([[2, 0, 4]])).values
    np.testing.assert_array_equal(lift[0, :2], found[0, :2])
    q = 3.5 / 7  # 3 other names with `deer`, all subjects of p0
    assert found[0, 1] == pytest.approx(np.log((3 + q) / 4 / q), rel=1e-6)


@settings(max_examples=3)
@given(st.integers(0, 2**32 - 1))
def test_a_triple_has_the_same_evidence_in_every_block(seed: int) -> None:
    rng, ready = np.random.default_rng(seed), features_of(*GROUPS).extended(["green_deer", "", "Q1"])
    triples = np.c_[rng.integers(0, 10, 30), rng.integers(0, 2, 30), rng.integers(0, 10, 30)]
    whole = ready.evidence(triples).values
    for row in rng.integers(0, 30, 5):
        np.testing.assert_array_equal(ready.evidence(triples[row : row + 1]).values[0], whole[row])


def test_further_entities_change_no_other_evidence() -> None:
    ready, rng = features_of(*GROUPS), np.random.default_rng(1)
    triples = np.c_[rng.integers(0, 7, 40), rng.integers(0, 2, 40), rng.integers(0, 7, 40)]
    np.testing.assert_array_equal(
        ready.evidence(triples).values, ready.extended(["green_deer", "东京"]).evidence(triples).values
    )


def test_an_unseen_entity_has_the_evidence_of_its_name() -> None:
    """A second `fallow deer` has what the known one has without its own facts: what `hidden` leaves."""
    plain = features_of("name_roles", "name_likeness", "name_pairs", "score")
    ready = plain.extended(["fallow_deer_2", "Q7"])
    names = [name for name in ready.names if name.startswith(("role_subject", "likeness", "pair_object_name", "score"))]
    known = ready.hidden(ready.evidence(np.array([[0, 0, 2]])), 0)
    assert np.isnan(known.values[0, [known.names.index(name) for name in ready.groups["name_pairs"].needs(0)]]).all()
    found = ready.evidence(np.array([[7, 0, 2], [8, 0, 2]]))
    assert np.isnan(found.values[0, found.names.index("score")])
    assert np.isnan(found.values[:, [found.names.index(name) for name in names if "pair_object" in name]]).all()
    likeness = found.values[0, found.names.index("likeness_object")]
    assert likeness == 1
    # the name Q7 has no words: nothing is known of it
    own = [i for i, name in enumerate(found.names) if not name.startswith("role_object")]
    assert np.isnan(found.values[1, own]).all()
    # `fallow`, `deer` and their ends: all four known subjects with `deer` are subjects of p0
    q = 4.5 / 8
    assert found.values[0, found.names.index("role_subject_highest")] == pytest.approx(
        np.log((4 + q) / 5 / q), rel=1e-6
    )


def test_names_without_words_give_no_evidence() -> None:
    source = source_of()
    graph = replace(source.graph, entities=[f"{i:08d}" for i in range(len(NAMES))])
    ready = Features.of(replace(source, graph=graph), list(GROUPS)).extended(["00000099"])
    assert np.isnan(ready.evidence(np.array([[0, 0, 2], [7, 1, 2]])).values).all()


def test_an_empty_table_has_no_rows() -> None:
    assert features_of(*GROUPS).evidence(np.zeros((0, 3), dtype=np.int64)).values.shape == (0, 17)


def test_a_hub_of_names_is_counted_as_by_a_loop() -> None:
    """The second count walks over facts and words."""
    rng = np.random.default_rng(5)
    facts = np.unique(np.c_[rng.integers(0, 7, 20), rng.integers(0, 2, 20), rng.integers(0, 7, 20)], axis=0)
    ready = Features.of(source_of(facts), ["name_pairs"])
    words = [set(words_of(name)) for name in NAMES]
    shared = {word for word in set().union(*words) if sum(word in own for own in words) > 1}
    for s, p, o in [(0, 0, 2), (1, 1, 3), (2, 0, 0), *facts[:5].tolist()]:
        rest = [(a, b) for a, q, b in facts.tolist() if q == p and a != s and b != o]
        lifts = []
        for v in words[s] & shared:
            for w in words[o] & shared:
                n = sum(v in words[a] and w in words[b] for a, b in rest)
                m = sum(v in words[a] for a, _ in rest) * sum(w in words[b] for _, b in rest) / max(len(rest), 1)
                lifts.append(np.log((n + 0.1) / (m + 0.1)))
        expected = (np.mean(lifts), max(lifts)) if lifts else (np.nan, np.nan)
        np.testing.assert_allclose(ready.evidence(np.array([[s, p, o]])).values[0, :2], expected, rtol=1e-6, atol=1e-7)
