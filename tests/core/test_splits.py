"""Splits like the use: by time, by cold entities, by groups, and without leaks by twins."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgcore.arrays import fill, is_first
from kgcore.config.base import SplitRule
from kgcore.data.datasets import twins
from kgcore.data.datasets.draw import SplitDraw, Values, draw_splits
from kgcore.data.datasets.twins import Families, Repeat, repeats_of
from kgcore.measure.report.graph_findings import shape_of
from tests.core.split_graphs import (
    ENTITIES,
    IN,
    KNOWS,
    LIKED_BY,
    LIKES,
    LIKES_TOO,
    NAMES,
    graph_with_twins,
    places_of,
    read,
    units,
    values_of,
)

RULES = ["random", "time:3", "group:3", "cold:object", "cold:subject", "cold:object:likes", "cold:subject:liked_by"]
SEEDS = st.integers(0, 10_000)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_twins_are_in_one_split_and_train_has_no_negatives(rule: str, seed: int) -> None:
    rows = graph_with_twins(seed)
    draw = SplitDraw(0.15, 0.15, seed, SplitRule.of(rule))
    found = draw_splits(rows, draw, NAMES, values_of(rows, seed))
    places = [place for place, label in zip(places_of(rows, found.rows), rows[:, 3], strict=True) if label]
    of_unit: dict[tuple[int, ...], set[str]] = {}
    for unit, place in zip(units(rows), places, strict=True):
        of_unit.setdefault(unit, set()).add(place)
    assert all(len(held - {"left_out"}) <= 1 for held in of_unit.values())
    assert (found.rows["train"][:, 3] == 1).all()
    assert all((found.rows[name][:, 3] == 1).any() for name in ("train", "valid", "test"))
    again = draw_splits(rows, draw, NAMES, values_of(rows, seed))
    assert all(np.array_equal(again.rows[name], found.rows[name]) for name in found.rows)


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_train_is_older_than_valid_and_valid_is_older_than_test(seed: int) -> None:
    rows = graph_with_twins(seed, negatives=0)
    values = values_of(rows, seed)
    found = draw_splits(rows, SplitDraw(0.1, 0.2, rule=SplitRule.of("time:year")), NAMES, values)
    first = np.full(len(rows), np.inf)
    np.minimum.at(first, values.rows, np.array([float(text) for text in values.texts])[values.codes])
    known: dict[tuple[int, ...], float] = {}
    for unit, time in zip(units(rows), first, strict=True):
        known[unit] = min(time, known.get(unit, np.inf))
    places = places_of(rows, found.rows)
    times = {
        name: [known[unit] for unit, place in zip(units(rows), places, strict=True) if place == name]
        for name in found.rows
    }
    assert max(times["train"]) < min(times["valid"]) <= max(times["valid"]) < min(times["test"])
    assert not times["left_out"]
    year = {name: f"{min(times[name]):g}" for name in ("valid", "test")}
    assert found.detail == f"Valid begins at {year['valid']}, and test at {year['test']}."


@pytest.mark.parametrize(
    ("rule", "ends"),
    [
        ("cold:object:likes", {LIKES: [2], LIKES_TOO: [2], LIKED_BY: [0]}),
        ("cold:subject:liked_by", {LIKES: [2], LIKES_TOO: [2], LIKED_BY: [0]}),
        ("cold:object:knows", {KNOWS: [0, 2]}),
        ("cold:subject:in", {IN: [0]}),
    ],
)
@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_train_has_no_fact_of_the_predicate_about_a_cold_entity(
    rule: str, ends: dict[int, list[int]], seed: int
) -> None:
    rows = graph_with_twins(seed)
    found = draw_splits(rows, SplitDraw(0.15, 0.15, seed, SplitRule.of(rule)), NAMES).rows

    def entities(split: str) -> set[int]:
        return {
            int(e) for p, columns in ends.items() for e in found[split][found[split][:, 1] == p][:, columns].ravel()
        }

    held = {split: found[split][found[split][:, 3] == 1] for split in ("valid", "test")}
    assert all(np.isin(part[:, 1], list(ends)).all() for part in held.values())  # others stay in train
    if len(ends[next(iter(ends))]) == 1:
        assert not entities("train") & (entities("valid") | entities("test"))
        assert not entities("valid") & entities("test")
    else:  # a fact of a symmetric predicate is cold if one of its entities is
        train = entities("train")
        for part in held.values():
            assert all(not {s, o} <= train for s, _, o, _ in part.tolist())
    others = np.unique(found["train"][:, [0, 2]])
    cold = (entities("valid") | entities("test")) - entities("train")
    assert len(cold - set(others.tolist())) <= 1  # other facts stay


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_cold_entities_of_every_predicate_differ_between_valid_and_test(seed: int) -> None:
    rows = graph_with_twins(seed, negatives=0)
    rows = rows[rows[:, 1] == IN] if seed % 2 else rows[np.isin(rows[:, 1], [IN, LIKES])]
    found = draw_splits(rows, SplitDraw(0.2, 0.2, seed, SplitRule.of("cold:object")), NAMES).rows
    for p in np.unique(rows[:, 1]):
        objects = {name: set(part[part[:, 1] == p, 2].tolist()) for name, part in found.items()}
        assert not objects["train"] & (objects["valid"] | objects["test"])
    assert not set(found["valid"][:, 2].tolist()) & set(found["test"][:, 2].tolist())


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_an_entity_with_many_facts_is_cold_only_if_the_others_do_not_suffice(seed: int) -> None:
    """One object has 60 facts, and 140 have one fact each. Each has another fact, which train keeps."""
    objects = np.r_[np.zeros(60), np.arange(1, 141)].astype(int)
    asked = np.stack([200 + np.arange(200) % 60, np.zeros(200), objects, np.ones(200)], axis=1)
    others = np.stack([np.arange(141), np.ones(141), 400 + np.arange(141), np.ones(141)], axis=1)
    rows = np.concatenate([asked, others]).astype(np.int64)
    for share, held in ((0.1, False), (0.3, True)):
        rule = SplitRule.of("cold:object:likes")
        found = draw_splits(rows, SplitDraw(share, share, seed, rule), ["likes", "in"]).rows
        cold = np.concatenate([found["valid"], found["test"]])[:, 2]
        assert len(cold) >= 0.5 * 2 * share * 200
        assert held or 0 not in cold


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_a_group_is_in_one_split(seed: int) -> None:
    rows = graph_with_twins(seed, negatives=0)
    values = values_of(rows, seed)
    found = draw_splits(rows, SplitDraw(0.2, 0.2, seed, SplitRule.of("group:study")), NAMES, values)
    place = dict(zip(map(tuple, rows.tolist()), places_of(rows, found.rows), strict=True))
    order = ["train", "valid", "test"]
    of_group: dict[int, set[str]] = {}
    for row, code in zip(values.rows.tolist(), values.codes.tolist(), strict=True):
        of_group.setdefault(code, set()).add(place[tuple(rows[row].tolist())])
    # a fact that several groups have is in the first of their splits
    last = {code: max((order.index(p) for p in places if p in order), default=0) for code, places in of_group.items()}
    for row, code in zip(values.rows.tolist(), values.codes.tolist(), strict=True):
        here = place[tuple(rows[row].tolist())]
        assert here == "left_out" or order.index(here) <= last[code]
    assert "in valid, and" in found.detail
    alone = np.bincount(values.rows) == 1
    singles: dict[int, set[str]] = {}
    for row, code in zip(values.rows.tolist(), values.codes.tolist(), strict=True):
        if alone[row]:
            singles.setdefault(code, set()).add(place[tuple(rows[row].tolist())])
    assert all(len(places - {"left_out"}) <= 1 for places in singles.values())  # a whole group may be left out


def test_families_of_predicates_by_hand() -> None:
    repeats = [Repeat(0, 1, True, 0.9), Repeat(1, 0, True, 1.0), Repeat(2, 1, False, 0.8), Repeat(3, 3, True, 1.0)]
    families = Families.of(repeats, 5)
    facts = np.array([(7, 0, 9), (9, 1, 7), (9, 2, 7), (7, 2, 9), (5, 3, 4), (4, 3, 5), (4, 4, 5), (5, 4, 4)])
    aligned = [tuple(row) for row in families.aligned(facts).tolist()]
    assert aligned[0] == aligned[1] == aligned[2] != aligned[3]
    assert aligned[4] == aligned[5]
    assert aligned[6] != aligned[7]
    mutual = Families.of(repeats, 5, mutual=True)
    assert mutual.family[0] == mutual.family[1] != mutual.family[2]


def test_predicates_of_a_large_graph_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = graph_with_twins(3, negatives=0)[:, :3]
    whole = repeats_of(facts, ENTITIES, len(NAMES))
    assert {(repeat.predicate, repeat.inverse) for repeat in whole} >= {(1, True), (3, False), (2, True)}
    for part in (7, 100, len(facts)):
        monkeypatch.setattr(twins, "PART", part)
        again = repeats_of(facts, ENTITIES, len(NAMES))
        assert sorted(again, key=repr) == sorted(whole, key=repr)


@pytest.mark.parametrize(("both", "found"), [(0, set()), (4, set()), (6, {(0, 1), (1, 0)}), (9, {(0, 1), (1, 0)})])
@pytest.mark.parametrize("inverse", [False, True])
def test_half_of_the_facts_turned_round_make_an_inverse(both: int, found: set[tuple[int, int]], inverse: bool) -> None:
    """Of ten facts each, two predicates share `both`. As they are, they must share eight."""
    ahead = [(n, 0, 20 + n) for n in range(10)]
    other = [(n, 1, 20 + n) if n < both else (n, 1, 40 + n) for n in range(10)]
    back = [(o, p, s) for s, p, o in other] if inverse else other
    repeats = repeats_of(np.array(ahead + back), 60, 2)
    assert {(one.predicate, one.other) for one in repeats} == (found if inverse or both > 8 else set())
    assert all(one.inverse == inverse for one in repeats)


def test_few_facts_turned_round_make_no_inverse() -> None:
    facts = [(n, 0, 20 + n) for n in range(9)] + [(20 + n, 1, n) for n in range(6)] + [(30 + n, 1, n) for n in range(3)]
    assert repeats_of(np.array(facts), 60, 2) == []


@given(sizes=st.lists(st.integers(1, 9) | st.just(2), max_size=40), wanted=st.floats(0, 120) | st.integers(0, 120))
def test_entries_are_chosen_if_each_brings_the_sum_closer(sizes: list[int], wanted: float) -> None:
    expected, total = [], 0
    for size in sizes:
        closer = total < wanted and 2 * total + size < 2 * wanted
        expected.append(closer)
        total += size * closer
    assert fill(np.array(sizes, dtype=np.int64), wanted).tolist() == expected


@given(values=st.lists(st.integers(0, 12), max_size=40))
def test_the_first_of_each_value_is_marked(values: list[int]) -> None:
    expected = [value not in values[:place] for place, value in enumerate(values)]
    assert is_first(np.array(values, dtype=np.int64)).tolist() == expected


def test_equal_times_stay_together() -> None:
    rows = np.array([(i % 6, 0, i % 7 + 6, 1) for i in range(40)])
    texts = ["2020-01", "2020-02", "2020-03-01T12:00"]
    values = Values(np.arange(40), np.repeat([0, 1, 2], [16, 12, 12]), texts)
    found = draw_splits(rows, SplitDraw(0.1, 0.1, rule=SplitRule.of("time:t")), ["p"], values)
    assert [len(found.rows[name]) for name in ("train", "valid", "test")] == [16, 12, 12]
    assert found.detail == "Valid begins at 2020-02, and test at 2020-03-01T12:00."


def test_twins_have_the_earliest_time_of_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = np.unique(np.sort(rng.integers(0, 30, (400, 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] < pairs[:, 1]]
    lines = ["a,r,b,year"]
    for number, (s, o) in enumerate(pairs.tolist()):
        lines += [f"e{s},r,e{o},{2000 + number % 20}", f"e{o},r,e{s},2030"]
    (tmp_path / "mine.csv").write_text("\n".join(lines).replace("a,r,b,year", "s,p,o,year") + "\n")
    prepared = read(tmp_path / "mine.csv", "time:year")
    shape = shape_of(prepared.graph)
    assert (shape.symmetric, shape.leaking, shape.twin_facts) == (1, 0, shape.facts)
    assert prepared.drawn == "Valid begins at 2016, and test at 2018."


def test_a_random_split_takes_as_many_facts_of_twins_as_of_others() -> None:
    """Half of the facts are symmetric: their pairs must not be held out more often than single facts."""
    excess = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        ends = np.stack(np.triu_indices(100, 1), axis=1)
        pairs, single = (rng.permutation(ends)[:count] for count in (800, 1_600))
        both = np.concatenate([pairs, pairs[:, ::-1]])
        rows = [np.c_[part[:, 0], np.full(len(part), p), part[:, 1]] for p, part in enumerate((both, single))]
        every = np.unique(np.c_[np.concatenate(rows), np.ones(3_200, dtype=np.int64)], axis=0)
        drawn = draw_splits(every, SplitDraw(0.1, 0.1, seed)).rows
        excess += [(drawn[name][:, 1] == 0).mean() - 0.5 for name in ("valid", "test")]
    assert np.mean(excess) == pytest.approx(0, abs=0.02)


def test_a_random_split_takes_as_many_facts_of_few_entities_as_of_many() -> None:
    """Each entity keeps a fact in train. Facts between two such entities must not be held out less often for that."""
    excess = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        among = np.unique(rng.integers(0, 1_000, (3_000, 2)), axis=0)
        among = among[among[:, 0] != among[:, 1]]
        to_few = np.stack([np.arange(1_000), rng.integers(1_000, 1_010, 1_000)], axis=1)
        rows = [np.c_[part[:, 0], np.full(len(part), p), part[:, 1]] for p, part in enumerate((among, to_few))]
        every = np.unique(np.c_[np.concatenate(rows), np.ones(sum(map(len, rows)), dtype=np.int64)], axis=0)
        drawn = draw_splits(every, SplitDraw(0.1, 0.1, seed)).rows
        share = (every[:, 1] == 1).mean()
        excess += [(drawn[name][:, 1] == 1).mean() / share - 1 for name in ("valid", "test")]
    assert np.mean(excess) == pytest.approx(0, abs=0.06)
