"""The generated world: its rules, its facts, its splits."""

from pathlib import Path

import numpy as np
import pytest

from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.family import PREDICATES, SHARES, County, generate, write_genealogy
from kgcore.data.datasets.prepare import prepare


@pytest.fixture(scope="module")
def county() -> County:
    [county] = generate(600, seed=3)
    return county


def pairs(county: County, name: str) -> set[tuple[int, int]]:
    facts = county.facts[county.facts[:, 1] == PREDICATES.index(name)]
    return {(int(s), int(o)) for s, _, o in facts}


def test_kinship_follows_from_parents(county: County) -> None:
    parents = pairs(county, "parent_of")
    of: dict[int, set[int]] = {}
    children: dict[int, set[int]] = {}
    for parent, child in parents:
        of.setdefault(child, set()).add(parent)
        children.setdefault(parent, set()).add(child)
    assert all(len(both) == 2 for both in of.values())
    siblings = {(a, b) for a in of for b in of if a != b and of[a] == of[b]}
    assert pairs(county, "sibling_of") == siblings
    assert pairs(county, "grandparent_of") == {(g, c) for g, p in parents for q, c in parents if p == q}
    uncles = {(u, c) for u, p in siblings for q, c in parents if p == q}
    assert pairs(county, "uncle_or_aunt_of") == uncles
    assert pairs(county, "cousin_of") == {(c, d) for u, d in uncles for c in children.get(u, ()) if c != d}


def test_marriage_is_mutual_single_and_not_between_siblings(county: County) -> None:
    spouses = pairs(county, "spouse_of")
    assert spouses == {(b, a) for a, b in spouses}
    assert len({a for a, _ in spouses}) == len(spouses)
    assert not spouses & pairs(county, "sibling_of")


def test_every_person_has_one_birthplace_one_home_and_one_employer(county: County) -> None:
    for name in ("born_in", "lives_in", "works_for"):
        assert sorted(s for s, _ in pairs(county, name)) == list(range(600))
    kinds = [name.split("_")[0] for name in county.entities]
    for name, kind in (("born_in", "town"), ("lives_in", "town"), ("works_for", "company"), ("located_in", "town")):
        assert {kinds[o] for _, o in pairs(county, name)} == {kind}


def test_facts_are_distinct_and_relate_two_entities(county: County) -> None:
    assert len(np.unique(county.facts, axis=0)) == len(county.facts)
    assert (county.facts[:, 0] != county.facts[:, 2]).all()


def test_negatives_are_verified_false_and_of_the_right_type(county: County) -> None:
    true = set(map(tuple, county.facts.tolist()))
    kinds = np.array([name.split("_")[0] for name in county.entities])
    for split in ("valid", "test"):
        facts, false = county.of(split), county.negatives[split]
        assert len(facts) == len(false)
        assert not true & set(map(tuple, false.tolist()))
        assert ((facts != false).sum(axis=1) == 1).all()
        for column in (0, 2):
            np.testing.assert_array_equal(kinds[facts[:, column]], kinds[false[:, column]])


def test_splits_have_their_shares_and_no_file_has_a_hidden_fact(county: County, tmp_path: Path) -> None:
    for name, share in SHARES.items():
        assert len(county.of(name)) / len(county.facts) == pytest.approx(share, abs=0.02)
    write_genealogy(tmp_path, 600, seed=3)
    written = {
        line for split in ("train", "valid", "test") for line in (tmp_path / f"{split}.txt").read_text().split("\n")
    }
    for s, p, o in county.of("hidden").tolist():
        row = f"{county.entities[s]}\t{PREDICATES[p]}\t{county.entities[o]}"
        assert not {row, f"{row}\t1", f"{row}\t-1"} & written


def test_the_seed_determines_the_world_and_counties_share_no_entity(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        write_genealogy(tmp_path / name, 4_500, seed)
    text = {name: (tmp_path / name / "train.txt").read_bytes() for name in "abc"}
    assert text["a"] == text["b"] != text["c"]
    counties = list(generate(4_500, 0))
    assert len(counties) == 3
    names = [set(county.entities) for county in counties]
    assert len(set.union(*names)) == sum(map(len, names))
    assert sum(name.startswith("person_") for name in set.union(*names)) == 4_500


def test_the_default_has_about_twenty_thousand_training_triples(tmp_path: Path) -> None:
    write_genealogy(tmp_path, 2_000, seed=0)
    prepared = prepare(find_dataset("family"), tmp_path)
    assert len(prepared.graph.train) == pytest.approx(20_000, rel=0.05)
    assert prepared.graph.labelled
    assert prepared.counts["test_negatives_true_in_train"] == 0
