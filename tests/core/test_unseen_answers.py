"""Answers about entities that training lacks: on names that say the truth, and where there are too few labels."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.combiners.unseen import FEWEST, UnseenAnswers
from kgcore.data.graph import KnowledgeGraph, Split
from kgcore.errors import InputError, MismatchError
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from tests.core.deer import ENTITIES, UNSEEN
from tests.core.names import model_of

ORIGIN = ("model-1", "graph-1", "boosted_trees")


def world() -> tuple[Features, Split, Split]:
    """Deer eat: (deer, eats, entity 0) is true and (stone, eats, entity 0) is false. Names say who is a deer."""
    train = np.array([[i, 0, i % 5] for i in range(30)])
    ones = Split(train, np.ones(len(train)))
    graph = KnowledgeGraph("deer", ENTITIES, ["eats"], ones, ones, ones)
    features = Features.of(Source(graph, model_of(len(ENTITIES))), ["score", "name_roles", "degrees"])
    known = np.array([[i, 0, i % 5] for i in (*range(30, 60), *range(90, 120))])
    unseen = np.array([[120 + i, 0, i % 5] for i in range(52)])
    return (
        features.extended(UNSEEN),
        Split(known, (known[:, 0] < 60).astype(float)),
        Split(unseen, (unseen[:, 0] < 146).astype(float)),
    )


def fitted_to(features: Features, known: Split, unseen: Split) -> UnseenAnswers:
    combiner = BoostedTrees(trees=20, fewest=5)
    return UnseenAnswers.fit(*ORIGIN, combiner, features, known, unseen, np.random.default_rng(0))


def test_names_answer_for_unseen_entities() -> None:
    features, known, unseen = world()
    half = np.arange(52) % 26 < FEWEST
    fitted = fitted_to(features, known, unseen.part(half))
    asked = unseen.part(~half)
    found = fitted.answers(asked.triples, features.evidence(asked.triples))
    assert ((found.probabilities > 0.5) == (asked.labels == 1)).all()
    assert ((found.low <= found.probabilities) & (found.probabilities <= found.high)).all()
    assert ((found.high - found.low) > 0.1).all()  # 40 labels do not allow narrow intervals
    again = [fitted.answers(row[None], features.evidence(row[None])).probabilities[0] for row in asked.triples]
    np.testing.assert_array_equal(again, found.probabilities)


def test_too_few_labels_are_refused() -> None:
    features, known, unseen = world()
    with pytest.raises(InputError, match="26 true and 4 false labelled triples have an entity that training lacks"):
        fitted_to(features, known, unseen.part(np.arange(30)))


def test_stored_answers_are_the_same() -> None:
    features, known, unseen = world()
    triples = np.concatenate([unseen.triples, unseen.triples[:5, [2, 1, 0]]])  # unseen subjects, and unseen objects
    evidence = features.evidence(triples)
    fitted = fitted_to(features, known, unseen)
    objects = replace(unseen, triples=unseen.triples[:, [2, 1, 0]])
    other = fitted_to(features, known, objects)
    fitted = replace(fitted, maps=(fitted.maps[0], other.maps[1]))  # two calibrators that differ
    read = UnseenAnswers.from_json(json.loads(json.dumps(fitted.to_json())))
    for name in ("probabilities", "low", "high"):
        expected, found = (getattr(one.answers(triples, evidence), name) for one in (fitted, read))
        np.testing.assert_array_equal(found, expected)
    assert (read.entities, read.dataset, read.combined.groups) == (120, "graph-1", tuple(features.groups))


def test_answers_belong_to_their_model_graph_and_evidence() -> None:
    features, known, unseen = world()
    fitted = fitted_to(features, known, unseen)
    fitted.check("model-1", "graph-1")
    with pytest.raises(MismatchError, match="fitted to the model model-1, but the model here is model-2"):
        fitted.check("model-2", "graph-1")
    with pytest.raises(MismatchError, match="fitted to the graph graph-1, but the graph here is graph-2"):
        fitted.check("model-1", "graph-2")
    fewer = Features({"score": features.groups["score"]}, features.entities)
    with pytest.raises(MismatchError, match="was fitted to the evidence"):
        fitted.answers(unseen.triples, fewer.evidence(unseen.triples))
    with pytest.raises(InputError, match="reads answers about unseen entities of format 4, not 5"):
        UnseenAnswers.from_json(fitted.to_json() | {"format": 5})
