"""The rows that calibrators of scores are fitted to again after drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.base_rate import BaseRate
from kgcore.errors import InputError
from kgcore.scores.table import ScoreTable
from kgcore.wings.external.rows import in_halves, joined, tables_after
from tests.core.scored_rows import rows_of

Listed = list[tuple[float, float, str]]


def rows(rng: np.random.Generator, n: int = 200, names: tuple[str, ...] = (), weighted: bool = False) -> ScoreTable:
    positive = np.arange(n) % 3 == 0
    weights = rng.uniform(0.5, 2, n) if weighted else None
    numbers = rng.integers(0, len(names), n) if names else None
    return rows_of(rng.normal(size=n) + positive, positive, weights, numbers=numbers, relations=names)


def listed(table: ScoreTable, split: str = "") -> Listed:
    """Return score, label and name of the relation of each row of a split, or of all rows, in order."""
    table = table.part(table.rows(split)) if split else table
    names = [table.relations[number] if table.relations else "" for number in table.triples[:, 1]]
    return sorted(zip(table.scores.tolist(), table.labels.tolist(), names, strict=True))


@given(st.integers(0, 2**32), st.permutations(["a", "b", "c"]), st.integers(1, 3))
def test_joined_rows_keep_their_relations(seed: int, names: list[str], count: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rows(rng, names=tuple(names[:count])), rows(rng, 50, names=("b", "d"))
    both = joined([one, other], None)
    assert listed(both) == sorted(listed(one) + listed(other))
    assert both.relations == tuple(sorted({*names[:count], "b", "d"}))


def test_a_row_without_weight_counts_as_the_mean_of_the_others(rng: np.random.Generator) -> None:
    weighted, plain = rows(rng, weighted=True), rows(rng, 40)
    both = joined([weighted, plain], None)
    assert weighted.weights is not None
    assert both.weights is not None
    expected = [*weighted.weights, *np.full(40, weighted.weights.mean())]
    assert np.allclose(np.sort(both.weights), np.sort(expected))
    assert joined([plain, plain], None).weights is None


def test_relations_must_be_known_for_all_rows_or_for_none(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="only some of the rows have relations"):
        joined([rows(rng), rows(rng, names=("a",))], None)


def test_no_new_row_is_fitted_and_measured(rng: np.random.Generator) -> None:
    old, every = rows(rng), rows(rng, 101)
    new = in_halves(every, 0)
    half, measured = listed(new, "valid"), listed(new, "test")
    assert half + measured != listed(every)  # drawn, not cut in the middle
    assert sorted(half + measured) == listed(every)
    true = [int(new.rows(split, label=1).sum()) for split in ("valid", "test")]
    assert abs(true[0] - true[1]) <= 1
    both, alone = tables_after("refit", old, new, 0.2, 10).values()
    assert listed(both, "valid") == sorted(listed(old) + half)
    assert listed(alone, "valid") == half
    assert listed(both, "test") == listed(alone, "test") == measured
    [shifted] = tables_after("shift", old, new, 0.2, 10).values()
    assert listed(shifted, "valid") == listed(old)
    assert listed(shifted, "test") == measured
    assert shifted.labelled_base_rate == both.labelled_base_rate == BaseRate(0.2)


def test_few_new_rows_are_not_fitted_alone(rng: np.random.Generator) -> None:
    new = in_halves(rows(rng, 101), 0)
    assert len(tables_after("refit", rows(rng), new, 0.2, 18)) == 1
    assert len(tables_after("refit", rows(rng), new, 0.2, 17)) == 2


def test_old_and_new_rows_have_the_same_numbers_of_relations(rng: np.random.Generator) -> None:
    old, new = rows(rng, names=("b", "c")), in_halves(rows(rng, names=("a", "b")), 0)
    [shifted] = tables_after("shift", old, new, 0.2, 10).values()
    assert shifted.relations == ("a", "b", "c")
    assert listed(shifted, "valid") == listed(old)
    assert listed(shifted, "test") == listed(new, "test")
