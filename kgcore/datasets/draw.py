"""Draw validation and test splits from a graph that comes without splits."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Ints
from kgcore.config.split import COLD, GROUP, TIME, SplitRule
from kgcore.datasets.draw_rules import (
    LEFT_OUT,
    PLACES,
    TEST,
    TRAIN,
    VALID,
    SplitDraw,
    Values,
    draw_cold,
    draw_groups,
    draw_times,
)
from kgcore.datasets.twins import Families, repeats_of
from kgcore.errors import InputError

FEWEST = 10  # true triples with known names that valid and test need, unless the split is random


@dataclass(frozen=True)
class Drawn:
    """The splits of a graph.

    rows    train, valid, test and left_out -> rows. Left out are facts that would tell train what test asks, and
            negatives of the kind that train has
    twins   number of facts with a twin; twins are in the same split
    detail  a sentence about what valid and test have in common; empty for a random split
    """

    rows: dict[str, Ints]
    twins: int
    detail: str = ""


def draw_splits(rows: Ints, draw: SplitDraw, predicates: Sequence[str] = (), values: Values | None = None) -> Drawn:
    """Divide the rows among train, valid and test.

    rows        (n, 4) distinct rows in sorted order: subject, predicate, object, label (1 / 0). The order of a file's
                lines has no effect then
    predicates  the names of the predicates
    values      the times or groups of the rows, if the rule has a column

    Twins, which are facts that say the same by an inverse, a duplicate or a symmetric predicate, are never separated.
    Valid and test are drawn by the same rule.

    A random split: every entity and every predicate of a true triple keeps at least one true triple in train: the first
    one of a random order. Valid and test are drawn uniformly from the other true triples. If these are too few, valid
    and test share them in the wanted proportion. Negatives go to valid and test in the same proportion, never to train.
    With every other rule, a negative goes where a true triple would go, and is left out if this is train; the shares
    are of the rows that the rule is about. See `draw_times`, `draw_groups` and `draw_cold`.

    Raises InputError if valid or test would have too few true triples, and as these functions do.
    """
    true = rows[:, 3] == 1
    repeats = repeats_of(rows[true, :3], *(int(rows[:, columns].max()) + 1 for columns in ([0, 2], [1]))) or []
    rng, rule = np.random.default_rng(draw.seed), draw.rule
    units = _units(rows, true, Families.of(repeats, int(rows[:, 1].max()) + 1) if repeats else None)
    twins = int((np.bincount(units)[units] > 1).sum())
    detail = ""
    if rule.kind == TIME and values is not None:
        places, detail = draw_times(units, values, draw)
    elif rule.kind == GROUP and values is not None:
        places, detail = draw_groups(units, values, draw, rng)
    elif rule.kind == COLD:
        places, detail = draw_cold(rows, units, repeats, predicates, draw, rng)
    else:
        places = _random(rows, units, true, draw, rng)
    places[(places == TRAIN) & ~true] = LEFT_OUT
    if detail:
        _check_sizes(rows, places, rule)
    return Drawn({name: rows[places == place] for place, name in enumerate(PLACES)}, twins, detail)


def _units(rows: Ints, true: Bools, families: Families | None) -> Ints:
    """Return the unit (n,) of each row: twins have the same one, and a negative has its own."""
    if families is None:
        return np.arange(len(rows))
    units = np.empty(len(rows), dtype=np.int64)
    units[true] = families.units(rows[true, :3])
    units[~true] = len(rows) + np.arange((~true).sum())
    distinct: Ints = np.unique(units, return_inverse=True)[1]
    return distinct


def _random(rows: Ints, units: Ints, true: Bools, draw: SplitDraw, rng: np.random.Generator) -> Ints:
    """Return the place (n,) of each row of a random split."""
    facts = np.flatnonzero(true)
    order = facts[rng.permutation(len(facts))]
    bound = np.zeros(len(units), dtype=bool)  # units that train needs
    bound[units[order[_first_of_a_name(rows[order])]]] = True
    free = order[~bound[units[order]]]
    valid, test = (max(1, round(share * len(facts))) for share in (draw.valid_share, draw.test_share))
    if valid + test > len(free):
        valid = max(1, round(len(free) * draw.of_valid))
        test = len(free) - valid
    if test < 1:
        raise InputError(
            f"only {len(free):,} of the {len(facts):,} true triples can leave train, because every entity and "
            "predicate must keep a triple there: valid and test need at least 2. Add triples, or give train, valid and "
            "test as files"
        )
    places = np.zeros(len(rows), dtype=np.int64)
    firsts, sizes = _units_in_order(units, free)
    start = np.cumsum(sizes) - sizes
    held: Ints = np.zeros(len(units), dtype=np.int64)
    held[firsts[start < valid]] = VALID
    held[firsts[(start >= valid) & (start < valid + test)]] = TEST
    places[free] = held[units[free]]
    if not (places[free] == TEST).any():
        raise InputError("all triples that can leave train say the same: add triples, or give the splits as files")
    false = np.flatnonzero(~true)
    mixed = false[rng.permutation(len(false))]
    cut = round(len(false) * draw.of_valid)
    places[mixed[:cut]], places[mixed[cut:]] = VALID, TEST
    return places


def _units_in_order(units: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the units of some rows in the order in which they first occur, and how many of the rows each has."""
    distinct, first, sizes = np.unique(units[rows], return_index=True, return_counts=True)
    order = np.argsort(first)
    return distinct[order], sizes[order]


def _first_of_a_name(rows: Ints) -> Bools:
    """Return a mask (n,) of the rows in which an entity or a predicate occurs for the first time."""
    first = np.zeros(len(rows), dtype=bool)
    ends = rows[:, [0, 2]].reshape(-1)
    first[np.unique(ends, return_index=True)[1] // 2] = True
    first[np.unique(rows[:, 1], return_index=True)[1]] = True
    return first


def _check_sizes(rows: Ints, places: Ints, rule: SplitRule) -> None:
    """Raise InputError if valid or test has fewer than FEWEST true triples whose names train knows."""
    train = rows[places == TRAIN]
    known = np.isin(rows[:, [0, 2]], train[:, [0, 2]]).all(axis=1) & np.isin(rows[:, 1], train[:, 1])
    for place in (VALID, TEST):
        held = (places == place) & (rows[:, 3] == 1)
        usable = int((held & known).sum())
        if usable < FEWEST:
            name = PLACES[place]
            lost = (
                f", and {int(held.sum()) - usable:,} more have a name that train lacks" if usable < held.sum() else ""
            )
            raise InputError(
                f"split is {str(rule)!r}: {name} would have {usable:,} usable true triples{lost}. It needs at least "
                f"{FEWEST}: give a larger --{name}-share, or another split"
            )
