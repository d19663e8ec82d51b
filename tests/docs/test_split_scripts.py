"""The scripts of docs/explanation/splits.md: calibrators where the truth is known, and the splits of a real graph."""

import numpy as np
import pytest

from kgcore.data.graph import KnowledgeGraph, Split
from tests.docs.scripts import script


@pytest.mark.parametrize(("rule", "times"), [("cold:object:treats", 3), ("time:year", 1.5)])
def test_a_calibrator_is_right_if_valid_is_like_what_is_asked(rule: str, times: float) -> None:
    module = script("splits_simulated")
    found = module.outcomes(module.World(1, drugs=400, diseases=800, pairs=25_000), rule)
    for outcome in found.values():
        assert outcome.error < 0.04
        assert outcome.at_random > times * outcome.error
        assert outcome.debiased_at_random > outcome.debiased  # and test shows it


def test_a_world_is_the_same_for_the_same_seed_and_its_labels_follow_the_truth() -> None:
    module = script("splits_simulated")
    one, other = module.World(3), module.World(3)
    drug, disease, label = one.examined
    assert all(np.array_equal(a, b) for a, b in zip(one.examined, other.examined, strict=True))
    assert list(one.facts()) == list(other.facts())
    assert label.mean() == pytest.approx(one.truth[drug, disease].mean(), abs=0.01)
    assert (one.years[drug, disease] <= module.LAST).all()


def test_the_rows_of_the_real_graph_have_one_train() -> None:
    module = script("splits")
    rng = np.random.default_rng(0)
    facts = np.unique(rng.integers(0, 40, (600, 3)) % [40, 2, 40], axis=0)
    splits = [Split(part, np.ones(len(part))) for part in np.split(facts, [len(facts) - 60, len(facts) - 30])]
    graph = KnowledgeGraph("mine", [f"e{i}" for i in range(40)], ["treats", "in"], *splits)
    parts = module.parts_of(graph, 0)
    assert {name: len(part) for name, part in parts.items()} == {
        "valid": 30,
        "test": 30,
        "random": 30,
        "more": 30,
        "train": len(splits[0]) - 60,
    }
    assert (np.r_[parts["random"], parts["more"]][:, 1] == 0).all()
    whole = np.concatenate(list(parts.values()))
    np.testing.assert_array_equal(np.unique(whole, axis=0), facts)
