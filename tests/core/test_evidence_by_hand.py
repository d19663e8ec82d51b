"""The features of triples of a few facts, counted by hand.

Facts: 0 -p0-> 1, 0 -p0-> 2, 3 -p0-> 1, 1 -p1-> 4, 2 -p1-> 4, 0 -p1-> 4, 4 -p0-> 0, 1 -p1-> 0.
"""

from math import log, log1p

import numpy as np
import pytest
import torch

from kgcore.embed.models.base import Embeddings
from kgcore.embed.models.trained import TrainedModel
from kgcore.evidence.base import Source
from kgcore.evidence.table import Features
from tests.core.drawn import graph_of

FACTS = [(0, 0, 1), (0, 0, 2), (3, 0, 1), (1, 1, 4), (2, 1, 4), (0, 1, 4), (4, 0, 0), (1, 1, 0)]


def features(group: str, triple: tuple[int, int, int], facts: list[tuple[int, int, int]] = FACTS) -> dict[str, float]:
    """Return the features of the triple. The model is DistMult with k = 1: f(s, p, o) = e_s r_p e_o."""
    entities = torch.tensor([[1.0], [2.0], [-1.0], [3.0], [0.5]])
    trained = TrainedModel("distmult", 1, Embeddings(entities, torch.ones(2, 1)))
    ready = Features.of(Source(graph_of(facts, 5), trained), [group]).groups[group]
    return dict(zip(ready.names, ready.values(np.array([triple]))[0].tolist(), strict=True))


def test_degrees_of_a_triple_that_train_lacks() -> None:
    assert features("degrees", (1, 1, 2)) == pytest.approx(
        {
            "subject_out": log1p(2),  # 1 -p1-> 4, 1 -p1-> 0
            "subject_in": log1p(2),  # from 0 and 3
            "object_out": log1p(1),
            "object_in": log1p(1),
            "subject_objects": log1p(2),
            "object_subjects": 0,
            "subject_as_object": 0,
            "object_as_subject": log1p(1),
            "subject_kinds": log1p(2),  # object of p0, subject of p1
            "object_kinds": log1p(2),
            "predicate_facts": log1p(4),
            "functionality": 3 / 4,  # subjects 1, 2 and 0
            "inverse_functionality": 2 / 4,
        }
    )


def test_degrees_leave_a_training_fact_out() -> None:
    found = features("degrees", (3, 0, 1))
    assert (found["subject_out"], found["subject_objects"], found["subject_kinds"]) == (0, 0, 0)
    assert found["object_subjects"] == pytest.approx(log1p(1))
    assert found["predicate_facts"] == pytest.approx(log1p(3))
    assert found["functionality"] == pytest.approx(2 / 3)
    assert found["inverse_functionality"] == pytest.approx(3 / 3)


def test_neighbours() -> None:
    """0 has the neighbours 1, 2 and 4; 1 has 0, 3 and 4; 2 has 0 and 4; 4 has 0, 1 and 2."""
    assert features("neighbours", (1, 0, 2)) == pytest.approx(
        {
            "common_neighbours": log1p(2),  # 0 and 4
            "adamic_adar": 2 / log1p(3),
            "jaccard": 2 / 3,
            "reverse_known": 0,
            "other_relations": 0,
        }
    )
    fact = features("neighbours", (0, 1, 4))  # 4 -p0-> 0 is another relation; 1 and 2 are common neighbours
    assert (fact["jaccard"], fact["reverse_known"]) == (1, 0)
    assert fact["other_relations"] == pytest.approx(log(2))
    assert features("neighbours", (0, 0, 4))["reverse_known"] == 1


def test_types() -> None:
    """By p0, 2 is an object, as are 0 and 1, and 3 is a subject, as are 0 and 4.

    0, 1 and 2 are the subjects of p1; 0 and 4 are its objects. Without 2 -p1-> 4, 0 and 1 are the subjects.
    """
    assert features("types", (2, 1, 3)) == pytest.approx(
        {
            "subject_type": log(3.5 / 4) - log(0.5 / 3),
            "subject_type_share": 3 / 4,
            "object_type": log(2.5 / 3) - log(1.5 / 4),
            "object_type_share": 2 / 4,
        }
    )
    fact = features("types", (2, 1, 4))
    assert fact["subject_type"] == pytest.approx(log(2.5 / 3) - log(1.5 / 4))
    assert fact["subject_type_share"] == pytest.approx(2 / 4)


def test_rules() -> None:
    """The rule p1(Y, X) => p0(X, Y) has four bodies: 4 and 0, the objects of p1, are subjects of p0.

    p0(X, Y) holds for (4, 0), by 0 -p1-> 4, and for (0, 1), by 1 -p1-> 0. Without 0 -p0-> 1, one support is left.
    """
    found = features("rules", (0, 0, 1))
    assert found == pytest.approx({"rule_best": 1 / 5, "rule_any": 1 / 5, "rules_fired": log(2)})
    # 4 -p0-> 0 is the only fact of p0 with the subject 4: three bodies fall out, and one support.
    assert features("rules", (4, 0, 0))["rule_best"] == pytest.approx(1 / 2)
    assert features("rules", (4, 0, 1)) == pytest.approx({"rule_best": 2 / 5, "rule_any": 2 / 5, "rules_fired": log(2)})
    assert features("rules", (3, 0, 4))["rules_fired"] == 0


def test_constants() -> None:
    """0, ..., 5 have p1 to 6. 0, 1, 2, 3 and 9 have p0 to 7, and 4 has p0 to 8."""
    facts = [(i, 1, 6) for i in range(6)] + [(i, 0, 7) for i in range(4)] + [(4, 0, 8), (9, 0, 7)]
    trained = TrainedModel("distmult", 1, Embeddings(torch.ones(10, 1), torch.ones(2, 1)))
    group = Features.of(Source(graph_of(facts, 10), trained), ["constants"]).groups["constants"]
    new, fact = group.values(np.array([(5, 0, 7), (0, 0, 7)]))
    names = list(group.names)
    # Rules for p0(X, 7): of p1(X, 6) and of p1(X, .). 0 to 4 have them and some object of p0; 0 to 3 have 7.
    assert new[names.index("object_share")] == pytest.approx(5 / 7)
    assert new[names.index("object_rule_best")] == new[names.index("object_rule_mean")] == pytest.approx(4 / 6)
    assert new[names.index("object_rule_lift")] == pytest.approx(log(4 / 6) - log(5 / 7))
    assert new[names.index("object_rules")] == pytest.approx(log1p(2))
    assert fact[names.index("object_share")] == pytest.approx(4 / 6)
    assert fact[names.index("object_rule_best")] == pytest.approx(3 / 5)


def test_paths() -> None:
    """Six pairs i -p0-> i+6 with i -p1-> i+12 -p2-> i+6: shuffled pairs have no such path."""
    facts = [(i, 0, i + 6) for i in range(6)]
    facts += [(i, 1, i + 12) for i in range(6)] + [(i + 12, 2, i + 6) for i in range(6)]
    facts += [(18, 1, 19), (19, 2, 20)]
    trained = TrainedModel("distmult", 1, Embeddings(torch.ones(21, 1), torch.ones(3, 1)))
    group = Features.of(Source(graph_of(facts, 21), trained), ["paths"]).groups["paths"]
    new, fact, other = group.values(np.array([(18, 0, 20), (0, 0, 6), (18, 0, 6)]))
    assert new[:3] == pytest.approx([6 / 7, 6 / 7, log(2)])
    assert fact[:3] == pytest.approx([5 / 6, 5 / 6, log(2)])
    assert other.tolist() == new[3:].tolist() * 2 == [0] * 6


def test_paths_of_three_facts() -> None:
    """i -p1-> i+10 -p1-> i+20 and i+30 -p1-> i+20 lead to the object i+30 of p0."""
    facts = [
        fact for i in range(5) for fact in ((i, 0, i + 30), (i, 1, i + 10), (i + 10, 1, i + 20), (i + 30, 1, i + 20))
    ]
    trained = TrainedModel("distmult", 1, Embeddings(torch.ones(35, 1), torch.ones(2, 1)))
    group = Features.of(Source(graph_of(facts, 35), trained), ["paths"]).groups["paths"]
    back, fact = group.values(np.array([(30, 0, 0), (0, 0, 30)]))
    assert fact[3:] == pytest.approx([4 / 5, 4 / 5, log(2)])
    assert back[3:] == pytest.approx([0, 0, log(2)])  # the same path, but of another type


def test_cohorts() -> None:
    """The objects of p0 are 1, 2 and 0, and those other than 1 have the scores -2 and 2 with the subject 1.

    e = 1, 2, -1, 3, 0.5. The cohort of 64 has 0 and 1 and 2 by turns: 0 has one more.
    """
    found = features("cohorts", (1, 0, 1))
    assert found["object_level"] == pytest.approx(log((22 * np.exp(2) + 21 * np.exp(-2)) / 43))
    mean = (22 * 2 - 21 * 2) / 43
    assert found["object_margin"] == pytest.approx(4 - mean)
    assert found["object_z"] == pytest.approx((4 - mean) / np.sqrt(4 - mean**2))
    assert found["object_rank"] == 0
    assert features("cohorts", (1, 0, 2))["object_rank"] == 1
    assert features("cohorts", (1, 0, 4))["object_rank"] == pytest.approx(43 / 64)  # 2 and 4 are above 1
