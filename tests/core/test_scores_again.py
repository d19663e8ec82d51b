"""The rows that calibrators of scores are fitted to again after drift."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgcore.errors import InputError
from kgcore.external.again import fits_after, halves
from kgcore.external.rows import ScoreRows


def rows(rng: np.random.Generator, n: int = 200, names: tuple[str, ...] = (), weighted: bool = False) -> ScoreRows:
    positive = (np.arange(n) % 3 == 0).astype(np.int8)
    weights = rng.uniform(0.5, 2, n) if weighted else None
    relations = rng.integers(0, len(names), n).astype(np.int32) if names else None
    return ScoreRows(rng.normal(size=n) + positive, positive, weights, relations, names)


def listed(made: ScoreRows) -> list[tuple[float, int, str]]:
    """Return score, label and name of the relation of each row, in order."""
    own = [""] * len(made) if made.relations is None else [made.names[number] for number in made.relations]
    return sorted(zip(made.scores.tolist(), made.positive.tolist(), own, strict=True))


@given(st.integers(0, 2**32), st.permutations(["a", "b", "c"]), st.integers(1, 3))
def test_joined_rows_keep_their_relations(seed: int, names: list[str], count: int) -> None:
    rng = np.random.default_rng(seed)
    one, other = rows(rng, names=tuple(names[:count])), rows(rng, 50, names=("b", "d"))
    joined = ScoreRows.joined([one, other])
    assert listed(joined) == sorted(listed(one) + listed(other))
    assert joined.names == tuple(sorted({*names[:count], "b", "d"}))


def test_a_row_without_weight_counts_as_the_mean_of_the_others(rng: np.random.Generator) -> None:
    weighted, plain = rows(rng, weighted=True), rows(rng, 40)
    joined = ScoreRows.joined([weighted, plain])
    assert weighted.weights is not None
    assert joined.weights is not None
    assert np.array_equal(joined.weights[:200], weighted.weights)
    assert np.allclose(joined.weights[200:], weighted.weights.mean())
    assert ScoreRows.joined([plain, plain]).weights is None


def test_relations_must_be_known_for_all_rows_or_for_none(rng: np.random.Generator) -> None:
    with pytest.raises(InputError, match="only some of the rows have relations"):
        ScoreRows.joined([rows(rng), rows(rng, names=("a",))])


def test_no_new_row_is_fitted_and_measured(rng: np.random.Generator) -> None:
    old, new = rows(rng), rows(rng, 101)
    half, measured = halves(new, 0)
    assert listed(half) + listed(measured) != listed(new)  # drawn, not cut in the middle
    assert sorted(listed(half) + listed(measured)) == listed(new)
    assert abs(half.positives - measured.positives) <= 1
    both, alone = fits_after("refit", old, half, measured, 0.2, 10)
    assert listed(both.file.fit) == sorted(listed(old) + listed(half))
    assert listed(alone.file.fit) == listed(half)
    assert both.file.test is not None
    assert listed(both.file.test) == listed(measured)
    [shifted] = fits_after("shift", old, half, measured, 0.2, 10)
    assert listed(shifted.file.fit) == listed(old)
    assert shifted.base_rate == 0.2


def test_few_new_rows_are_not_fitted_alone(rng: np.random.Generator) -> None:
    half, measured = halves(rows(rng, 101), 0)
    assert len(fits_after("refit", rows(rng), half, measured, 0.2, 18)) == 1
    assert len(fits_after("refit", rows(rng), half, measured, 0.2, 17)) == 2


def test_old_and_new_rows_have_the_same_numbers_of_relations(rng: np.random.Generator) -> None:
    old, new = rows(rng, names=("b", "c")), rows(rng, names=("a", "b"))
    [shifted] = fits_after("shift", old, *halves(new, 0), 0.2, 10)
    assert shifted.file.test is not None
    assert shifted.file.fit.names == shifted.file.test.names == ("a", "b", "c")
    assert listed(shifted.file.fit) == listed(old)
    assert replace(old, names=("b", "c")).named(("b", "c")) == old
