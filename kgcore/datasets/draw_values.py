"""Splits by a column: the newest triples, or groups of triples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import Ints, sorted_distinct
from kgcore.datasets.places import LEFT_OUT, TEST, TRAIN, VALID, Shares, fill
from kgcore.datasets.times import read_times
from kgcore.errors import InputError

MOST_NAMES = 3  # groups that a sentence names


@dataclass(frozen=True)
class Values:
    """The column of times or groups. A triple that is in several rows of a file has several values.

    rows   (m,) row of each value, in [0, n)
    codes  (m,) position of the value in `texts`
    texts  the distinct values
    """

    rows: Ints
    codes: Ints
    texts: Sequence[str]

    @classmethod
    def of(cls, rows: Ints, codes: Ints, texts: Sequence[str]) -> Self:
        """Return the values of the distinct rows, each once. rows (N, 4 or more), codes (N,): those of the files."""
        _, distinct = np.unique(rows[:, :4], axis=0, return_inverse=True)
        pairs = sorted_distinct(distinct.reshape(-1) * len(texts) + codes)
        return cls(*np.divmod(pairs, len(texts)), texts)


def draw_times(units: Ints, values: Values, shares: Shares) -> tuple[Ints, str]:
    """Put the newest rows into test, the next newest ones into valid: place (n,) of each row, and a sentence.

    units  (n,) unit of each row

    The time of a row is its earliest one, and that of twins is the earliest one of them: from then on, it is known.
    Rows of the same time stay together; of all possible borders, those nearest to the wanted shares are taken.

    Raises InputError if there are fewer than three times, or times of two kinds.
    """
    times = read_times(values.texts)
    first = np.full(int(units.max()) + 1, np.inf)
    np.minimum.at(first, units[values.rows], times[values.codes])
    known, sizes = np.unique(first[units], return_counts=True)
    if len(known) < 3:
        raise InputError(
            f"the column has {len(known)} different time{'' if len(known) == 1 else 's'}: train, valid and test need "
            "at least one each"
        )
    newest, total = np.cumsum(sizes[::-1]), len(units)
    test = _nearest(newest, shares.test * total, 0, len(known) - 3)
    valid = _nearest(newest, (shares.test + shares.valid) * total, test + 1, len(known) - 2)
    starts = known[::-1][[valid, test]]
    places = np.searchsorted(starts, first[units], side="right")
    names = dict(zip(times[::-1].tolist(), values.texts[::-1], strict=True))
    return places, f"Valid begins at {names[starts[0]]}, and test at {names[starts[1]]}."


def _nearest(sums: Ints, wanted: float, low: int, high: int) -> int:
    """Return the position in [low, high] whose sum is nearest to `wanted`."""
    return low + int(np.argmin(np.abs(sums[low : high + 1] - wanted)))


def draw_groups(units: Ints, values: Values, shares: Shares, rng: np.random.Generator) -> tuple[Ints, str]:
    """Put whole groups into test and valid, in a random order: place (n,) of each row, and a sentence.

    units  (n,) unit of each row

    A fact that groups of several splits have, itself or as a twin, belongs to the first of train, valid and test only:
    what others of these groups repeat is left out. So no group tells train what test asks.

    Raises InputError if no group fits into valid or test.
    """
    sizes = np.bincount(values.codes, minlength=len(values.texts))
    order = np.argsort(np.array(values.texts, dtype=object))[rng.permutation(len(sizes))]
    of_group = np.full(len(sizes), TRAIN)
    for place, share, name in ((TEST, shares.test, "test"), (VALID, shares.valid, "valid")):
        free = order[of_group[order] == TRAIN]
        chosen = free[fill(sizes[free], share * len(values.rows))]
        if not len(chosen) or len(chosen) == len(free):
            smallest = sizes.min() / len(values.rows)
            raise InputError(
                f"the {len(sizes):,} groups of the column cannot fill {name} and leave train some: the smallest has "
                f"{smallest:.0%} of the rows. Give --{name}-share {smallest:.2f} or more, or a column with more and "
                "smaller groups"
            )
        of_group[chosen] = place
    entries = of_group[values.codes]
    earliest = np.full(int(units.max()) + 1, LEFT_OUT)
    np.minimum.at(earliest, units[values.rows], entries)
    places = np.full(len(units), LEFT_OUT)
    stays = entries == earliest[units[values.rows]]
    places[values.rows[stays]] = entries[stays]
    valid, test = (_listed([values.texts[group] for group in order if of_group[group] == at]) for at in (VALID, TEST))
    return places, f"{valid} in valid, and {test} in test."


def _listed(names: Sequence[str]) -> str:
    """Return a number of groups, and the names of the first ones."""
    more = ", ..." if len(names) > MOST_NAMES else ""
    is_one = len(names) == 1
    shown = f"{', '.join(names[:MOST_NAMES])}{more}"
    return f"{len(names):,} group{'' if is_one else 's'} ({shown}) {'is' if is_one else 'are'}"
