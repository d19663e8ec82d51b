"""Answers about entities that training lacks: on names that say the truth, and where there are too few labels."""

import numpy as np
import pytest

from kgcore.combiners.boosted_trees import BoostedTrees
from kgcore.errors import InputError
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from kgcore.graph import KnowledgeGraph, Split
from kgcore.unseen_answers import FEWEST, UnseenAnswers
from tests.core.names import model_of

KINDS = ("deer", "stone")
LETTERS = [f"{a}{b}" for a in "abc" for b in "abcdefghijklmnopqrst"]
ENTITIES = [f"{kind}_{letters}" for kind in KINDS for letters in LETTERS]
UNSEEN = [f"{kind}_x{letter}" for kind in KINDS for letter in "abcdefghijklmnopqrstuvwxyz"]


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


def test_names_answer_for_unseen_entities() -> None:
    features, known, unseen = world()
    half = np.arange(52) % 26 < FEWEST
    fitted = UnseenAnswers.fit(
        BoostedTrees(trees=20, fewest=5), features, known, unseen.part(half), np.random.default_rng(0)
    )
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
        UnseenAnswers.fit(BoostedTrees(), features, known, unseen.part(np.arange(30)), np.random.default_rng(0))
