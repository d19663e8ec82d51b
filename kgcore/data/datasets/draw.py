"""Draw validation and test splits from a graph that comes without splits.

They are random, or have the newest triples, groups of triples, or facts about cold entities.
"""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from kgcore.arrays import (
    Bools,
    Ints,
    Numbers,
    blocks,
    chosen,
    counted,
    fill,
    first_places,
    is_first,
    repeated,
    sorted_distinct,
    taken,
)
from kgcore.config.base import COLD, GROUP, RANDOM, TIME, SplitRule
from kgcore.data.datasets.twins import Families, Repeat, order_of_units, repeats_of, units_of
from kgcore.data.graph import SPLITS
from kgcore.errors import InputError

TRAIN, VALID, TEST, LEFT_OUT = range(4)
PLACES = (*SPLITS, "left_out")
MOST_GROUPS = 3  # groups that a sentence names
MOST_NAMES = 5  # predicates that a message lists
MOST_OF_SPLIT = 0.1  # an entity with a larger share of the facts of valid or test would decide what they show
FEWEST = 10  # true triples with known names that valid and test need, unless the split is random


@dataclass(frozen=True)
class SplitDraw:
    """How to draw the splits.

    valid_share, test_share  shares of the true triples that go to valid and to test, above 0; their sum is below 1
    seed                     seed of the draw
    rule                     what the facts of valid and test have in common
    """

    valid_share: float = 0.1
    test_share: float = 0.1
    seed: int = 0
    rule: SplitRule = SplitRule()

    @property
    def of_valid(self) -> float:
        """The share of valid in what is held out."""
        return self.valid_share / (self.valid_share + self.test_share)


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


def draw_times(units: Ints, values: Values, draw: SplitDraw) -> tuple[Numbers, str]:
    """Put the newest rows into test, the next newest ones into valid: place (n,) of each row, and a sentence.

    units  (n,) unit of each row

    The time of a row is its earliest one, and that of twins is the earliest one of them: from then on, it is known.
    Rows of the same time stay together; of all possible borders, those nearest to the wanted shares are taken.

    Raises InputError if there are fewer than three times, or times of two kinds.
    """
    from kgcore.data.datasets.schema import read_times  # pandera takes a second to load

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
    test = _nearest(newest, draw.test_share * total, 0, len(known) - 3)
    valid = _nearest(newest, (draw.test_share + draw.valid_share) * total, test + 1, len(known) - 2)
    starts = known[::-1][[valid, test]]
    places = np.searchsorted(starts, first[units], side="right")
    names = dict(zip(times[::-1].tolist(), values.texts[::-1], strict=True))
    return places, f"Valid begins at {names[starts[0]]}, and test at {names[starts[1]]}."


def _nearest(sums: Ints, wanted: float, low: int, high: int) -> int:
    """Return the position in [low, high] whose sum is nearest to `wanted`."""
    return low + int(np.argmin(np.abs(sums[low : high + 1] - wanted)))


def draw_groups(units: Ints, values: Values, draw: SplitDraw, rng: np.random.Generator) -> tuple[Numbers, str]:
    """Put whole groups into test and valid, in a random order: place (n,) of each row, and a sentence.

    units  (n,) unit of each row

    A fact that groups of several splits have, itself or as a twin, belongs to the first of train, valid and test only:
    what others of these groups repeat is left out. So no group tells train what test asks.

    Raises InputError if no group fits into valid or test.
    """
    sizes = np.bincount(values.codes, minlength=len(values.texts))
    order = np.argsort(np.array(values.texts, dtype=object))[rng.permutation(len(sizes))]
    of_group = np.full(len(sizes), TRAIN)
    for place, share, name in ((TEST, draw.test_share, "test"), (VALID, draw.valid_share, "valid")):
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
    more = ", ..." if len(names) > MOST_GROUPS else ""
    is_one = len(names) == 1
    shown = f"{', '.join(names[:MOST_GROUPS])}{more}"
    return f"{len(names):,} group{'' if is_one else 's'} ({shown}) {'is' if is_one else 'are'}"


def draw_cold(
    rows: Ints,
    units: Ints,
    repeats: Sequence[Repeat],
    predicates: Sequence[str],
    draw: SplitDraw,
    rng: np.random.Generator,
) -> tuple[Numbers, str]:
    """Put all facts of a predicate about drawn entities into valid and test: place (n,) of each row, and a sentence.

    rows        (n, 4) rows: subject, predicate, object, label
    units       (n,) unit of each row
    repeats     which predicates repeat each other
    predicates  the names of the predicates
    draw        its rule has the side of the cold entities, and the predicate; without one, entities are drawn for every
                predicate

    Predicates that repeat each other both ways count as one predicate, an inverse turned round, and entities are cold
    on both sides of a symmetric one. The other facts of a cold entity stay in train; an entity without others is not
    drawn. An entity is cold in valid or in test, never in both, so a fact of one of each is left out. The shares are of
    the rows of the predicate. Entities with many facts are drawn last: see `_draw`.

    Raises InputError if the graph lacks the predicate, or if no entity fits into valid or test.
    """
    rule, families = draw.rule, Families.of(list(repeats), int(rows[:, 1].max()) + 1, mutual=True)
    entities = int(rows[:, [0, 2]].max()) + 1
    for_test = rng.random(entities) >= draw.of_valid
    asked = _number(predicates, rule.predicate) if rule.predicate else None
    wanted = families.family[[asked]] if asked is not None else np.unique(families.family)
    row, family, entity = _entries(rows, families, rule.side, asked)
    places = np.zeros(len(row), dtype=np.int64)
    by_family = np.argsort(family, kind="stable")
    ends = np.searchsorted(family[by_family], [wanted, wanted + 1])
    facts, true = _facts_by_entity(rows, entities), rows[:, 3] == 1
    for start, end in ends.T.tolist():
        entries = by_family[start:end]
        of_rows = row[entries], true[row[entries]]
        places[entries] = _draw(*of_rows, entity[entries], facts, for_test, draw, rng)
        held = np.unique(row[entries[places[entries] != TRAIN]])
        np.subtract.at(facts, rows[held[true[held]]][:, [0, 2]], 1)
    in_valid, in_test = (np.isin(units, units[row[places == place]]) for place in (VALID, TEST))
    placed = np.select([in_valid & in_test, in_valid, in_test], [LEFT_OUT, VALID, TEST], TRAIN)
    cold = {place: len(np.unique(entity[places == place])) for place in (VALID, TEST)}
    of_predicate = f" of {rule.predicate}" if rule.predicate else ""
    if not all(cold.values()):
        missing = "valid" if not cold[VALID] else "test"
        raise InputError(
            f"no {rule.side}{of_predicate} fits into {missing}: each has too large a share of the facts, or no other "
            f"fact that train could keep. Give a larger --{missing}-share, or another split"
        )
    sentence = f"{cold[VALID]:,} {rule.side}s{of_predicate} are only in valid, and {cold[TEST]:,} only in test"
    return placed, f"{sentence}: train has none of {'these' if rule.predicate else 'their'} facts of the predicate."


def _facts_by_entity(rows: Ints, entities: int) -> Ints:
    """Return the number of true facts (E,) of each entity, on either side."""
    true = rows[rows[:, 3] == 1]
    loops = true[true[:, 0] == true[:, 2], 0]
    return np.bincount(true[:, [0, 2]].reshape(-1), minlength=entities) - np.bincount(loops, minlength=entities)


def _number(predicates: Sequence[str], name: str) -> int:
    """Return the position of a predicate. Raises InputError with near names if it is unknown."""
    if name in predicates:
        return list(predicates).index(name)
    near = difflib.get_close_matches(name, predicates, MOST_NAMES, 0.5) or list(predicates[:MOST_NAMES])
    raise InputError(f"the graph has no predicate {name!r} for the split `cold`: near ones are {', '.join(near)}")


def _entries(rows: Ints, families: Families, side: str, asked: int | None) -> tuple[Ints, Ints, Ints]:
    """Return row, family and entity of every entity that could be cold in a row: two in a symmetric family.

    asked  the predicate whose side is meant; None: the side of each family's predicate that is not turned round
    """
    p = rows[:, 1]
    is_object = np.full(len(rows), side == "object") ^ families.turned[p]
    if asked is not None:
        is_object ^= bool(families.turned[asked])
    entity = np.where(is_object, rows[:, 2], rows[:, 0])
    other = np.where(is_object, rows[:, 0], rows[:, 2])
    both = np.flatnonzero(families.symmetric[p] & (entity != other))
    row = np.r_[np.arange(len(rows)), both]
    return row, families.family[p][row], np.r_[entity, other[both]]


def _draw(
    row: Ints, true: Bools, entity: Ints, facts: Ints, for_test: Bools, draw: SplitDraw, rng: np.random.Generator
) -> Ints:
    """Return the place of each entry of one family.

    row, true, entity  (m,) row of each entry, whether the row is true, and the entity that could be cold
    facts              (E,) number of true facts of each entity, without those that train has lost already
    for_test           (E,) whether an entity may be cold in test; the others may be cold in valid

    Entities with more than MOST_OF_SPLIT of the wanted rows of valid or test are drawn last, if the others do not
    suffice. The facts of one entity are alike, so a split with a few large entities says little about further ones.

    Train keeps a fact of the family: if it would have none, all stay in train.
    """
    known, code = np.unique(entity, return_inverse=True)
    distinct, of_row = np.unique(row, return_inverse=True)
    sizes = np.bincount(code)
    has_others = facts[known] > np.bincount(code, weights=true)
    order = rng.permutation(len(known))
    of_entity = np.full(len(known), TRAIN)
    for place, share, half in ((TEST, draw.test_share, for_test[known]), (VALID, draw.valid_share, ~for_test[known])):
        free, wanted = order[(half & has_others)[order]], share * len(distinct)
        free = free[np.argsort(sizes[free] > MOST_OF_SPLIT * wanted, kind="stable")]
        of_entity[free[fill(sizes[free], wanted)]] = place
    places: Ints = of_entity[code]
    held = np.bincount(of_row, weights=places != TRAIN) > 0
    return places if (true & ~held[of_row]).any() else np.full_like(places, TRAIN)


@dataclass(frozen=True)
class Drawn:
    """The splits of a graph.

    rows    train, valid, test and left_out -> rows. Left out are facts that would tell train what test asks, and
            negatives of the kind that train has
    twins   number of facts with a twin; twins are in the same split
    detail  a sentence about what valid and test have in common; empty for a random split
    """

    rows: dict[str, Numbers]
    twins: int
    detail: str = ""


def draw_splits(rows: Numbers, draw: SplitDraw, predicates: Sequence[str] = (), values: Values | None = None) -> Drawn:
    """Divide the rows among train, valid and test.

    rows        (n, 4) distinct rows in sorted order: subject, predicate, object, label (1 / 0). The order of a file's
                lines has no effect then
    predicates  the names of the predicates
    values      the times or groups of the rows, if the rule has a column

    Twins, which are facts that say the same by an inverse, a duplicate or a symmetric predicate, are never separated.
    Valid and test are drawn by the same rule.

    A random split: every entity and every predicate of a true triple keeps at least one true triple in train: the first
    one of a random order. Valid and test are the last of the other true triples in this order. If these are too few,
    valid and test share them in the wanted proportion. Negatives go to valid and test in the same proportion, never to
    train.
    A fact and its mirror image are not separated, whatever the predicate.
    With every other rule, a negative goes where a true triple would go, and is left out if this is train; the shares
    are of the rows that the rule is about. See `draw_times`, `draw_groups` and `draw_cold`.

    Raises InputError if valid or test would have too few true triples, and as these functions do.
    """
    true = rows[:, 3] == 1
    sizes = 1 + max(int(rows[:, 0].max()), int(rows[:, 2].max())), 1 + int(rows[:, 1].max())
    repeats = repeats_of(chosen(rows, true), *sizes)
    rng, rule = np.random.default_rng(draw.seed), draw.rule
    units = units_of(rows, true, Families.of(repeats, sizes[1]), sizes[0], mirrored=rule.kind == RANDOM)
    twins, detail = repeated(units.copy()), ""
    if rule.kind == TIME and values is not None:
        places, detail = draw_times(units, values, draw)
    elif rule.kind == GROUP and values is not None:
        places, detail = draw_groups(units, values, draw, rng)
    elif rule.kind == COLD:
        places, detail = draw_cold(rows, units, repeats, predicates, draw, rng)
    else:
        places = _random(rows, units, true, sizes, draw, rng)
    places[(places == TRAIN) & ~true] = LEFT_OUT
    if detail:
        _check_sizes(rows, places, rule)
    return Drawn({name: chosen(rows, places == place) for place, name in enumerate(PLACES)}, twins, detail)


def _random(
    rows: Numbers, units: Numbers, true: Bools, sizes: tuple[int, int], draw: SplitDraw, rng: np.random.Generator
) -> Numbers:
    """Return the place (n,) of each row of a random split. `sizes`: numbers of entities and predicates."""
    number = int(true.sum())
    order = order_of_units(chosen(units, true), rng)
    order = order if number == len(rows) else np.flatnonzero(true)[order]
    bound = np.zeros(len(units), dtype=bool)  # units that train needs
    bound[units[order[_first_of_a_name(rows, order, sizes)]]] = True
    free = order[~taken(bound, taken(units, order))][::-1]  # train needs few of the last ones: nearly a uniform sample
    del order, bound
    valid, test = (max(1, round(share * number)) for share in (draw.valid_share, draw.test_share))
    if valid + test > len(free):
        valid = max(1, round(len(free) * draw.of_valid))
        test = len(free) - valid
    if test < 1:
        raise InputError(
            f"only {len(free):,} of the {number:,} true triples can leave train, because every entity and "
            "predicate must keep a triple there: valid and test need at least 2. Add triples, or give train, valid and "
            "test as files"
        )
    of_free = taken(units, free)
    lengths, firsts = counted(of_free, len(units)), of_free[is_first(of_free)]
    del of_free
    lengths = taken(lengths, firsts)
    held, places = np.zeros(len(units), dtype=np.int8), np.zeros(len(rows), dtype=np.int8)
    for place, wanted in ((VALID, valid), (TEST, test)):
        drawn = fill(lengths, wanted)
        drawn[:1] |= not drawn.any()
        held[firsts[drawn]] = place
        firsts, lengths = firsts[~drawn], lengths[~drawn]
    for part in blocks(len(free)):
        places[free[part]] = held[units[free[part]]]
    if not (places == TEST).any():
        raise InputError("all triples that can leave train say the same: add triples, or give the splits as files")
    false = np.flatnonzero(~true)
    mixed = false[rng.permutation(len(false))]
    cut = round(len(false) * draw.of_valid)
    places[mixed[:cut]], places[mixed[cut:]] = VALID, TEST
    return places


def _first_of_a_name(rows: Numbers, order: Numbers, sizes: tuple[int, int]) -> Bools:
    """Return a mask (m,) of the rows, in an order (m,), that have an entity or a predicate for the first time."""
    s, p, o = (first_places(taken(rows[:, column], order), sizes[column % 2]) for column in range(3))
    first: Bools = np.zeros(len(order), dtype=bool)
    for places in (np.minimum(s, o), p):
        first[places[places < len(order)]] = True
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
