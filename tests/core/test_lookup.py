"""Tables of keys against a dictionary, lists of positions against a plain loop, and results in their order."""

import threading

import numpy as np
import pytest

from kgcore.evidence.lookup import Counts, KeyTable, expanded
from kgcore.workers import in_order


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [0, 1, 2, 3000])
def test_keys_are_found_as_in_a_dictionary(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    span = (10, 2**40)[seed % 2]
    keys = np.unique(rng.integers(-span, span, count))
    wanted = rng.permutation(np.concatenate([keys, keys, rng.integers(-span, span, 500), [2**62, -(2**62)]]))
    rows, places = KeyTable.of(keys).find(wanted)
    place_of = {key: place for place, key in enumerate(keys.tolist())}
    expected = [(row, place_of[key]) for row, key in enumerate(wanted.tolist()) if key in place_of]
    assert list(zip(rows.tolist(), places.tolist(), strict=True)) == expected
    assert KeyTable.of(keys).find(wanted[:0])[0].tolist() == []


def test_a_table_takes_every_second_key_of_an_array() -> None:
    keys = np.arange(40)[::2]
    assert KeyTable.of(keys).find(np.arange(20)[::5])[0].tolist() == [0, 2]
    assert Counts.of(np.array([7, 3, 7]))(np.array([7, 5, 3, 7])).tolist() == [2, 0, 1, 2]


def test_positions_are_listed_range_by_range() -> None:
    starts, lengths = np.array([5, 0, 9, 2]), np.array([2, 0, 1, 3])
    rows, positions = expanded(starts, lengths)
    assert rows.tolist() == [0, 0, 2, 3, 3, 3]
    assert positions.tolist() == [5, 6, 9, 2, 3, 4]
    assert [len(found) for found in expanded(starts[:0], lengths[:0])] == [0, 0]


def test_results_come_in_order_and_not_far_ahead() -> None:
    begun: list[int] = []
    second = threading.Event()

    def work(number: int) -> int:
        begun.append(number)
        if number == 0:
            assert second.wait(10)  # the second result is ready before the first
        if number == 1:
            second.set()
        if number == 7:
            raise ValueError("seven")
        return number * number

    results = in_order(work, range(9), 2)
    assert next(results) == 0
    assert max(begun) <= 3
    assert [next(results) for _ in range(6)] == [1, 4, 9, 16, 25, 36]
    with pytest.raises(ValueError, match="seven"):
        next(results)
