"""Random graphs with twins, and files of them, for tests of splits."""

from pathlib import Path

import numpy as np

from kgcore.arrays import Ints
from kgcore.config.base import SplitRule
from kgcore.data.datasets.base import find_dataset
from kgcore.data.datasets.draw import SplitDraw, Values
from kgcore.data.datasets.prepare import Prepared, prepare
from kgcore.data.datasets.twins import Families, repeats_of

ENTITIES, NAMES = 60, ("likes", "liked_by", "knows", "likes_too", "in")
LIKES, LIKED_BY, KNOWS, LIKES_TOO, IN = range(5)


def graph_with_twins(seed: int, negatives: int = 60) -> Ints:
    """Return distinct rows (n, 4): likes, with an inverse and a duplicate of most facts; a symmetric predicate; in."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, ENTITIES, (300, 2)), axis=0)
    known = np.unique(rng.integers(0, ENTITIES, (120, 2)), axis=0)
    parts = [(pairs, LIKES), (pairs[rng.random(len(pairs)) < 0.9][:, ::-1], LIKED_BY), (known, KNOWS)]
    parts += [(known[:, ::-1], KNOWS), (pairs[rng.random(len(pairs)) < 0.95], LIKES_TOO)]
    parts += [(np.unique(rng.integers(0, ENTITIES, (200, 2)), axis=0), IN)]
    true = np.concatenate([np.c_[ends[:, 0], np.full(len(ends), p), ends[:, 1]] for ends, p in parts])
    false = np.c_[
        rng.integers(0, ENTITIES, negatives), rng.integers(0, 5, negatives), rng.integers(0, ENTITIES, negatives)
    ]
    rows = np.concatenate([np.c_[true, np.ones(len(true), int)], np.c_[false, np.zeros(negatives, int)]])
    return np.unique(rows, axis=0)


def values_of(rows: Ints, seed: int, count: int = 30) -> Values:
    """Return a value for every row, and a second one for a tenth of them."""
    rng = np.random.default_rng(seed)
    again = np.flatnonzero(rng.random(len(rows)) < 0.1)
    row = np.r_[np.arange(len(rows)), again]
    return Values(row, rng.integers(0, count, len(row)), [str(2000 + i) for i in range(count)])


def places_of(rows: Ints, parts: dict[str, Ints]) -> list[str]:
    """Return the name of the split of each row. A row that is in no split, or in two, raises KeyError or ValueError."""
    found: dict[tuple[int, ...], str] = {}
    for name, part in parts.items():
        for row in map(tuple, part.tolist()):
            if row in found:
                raise ValueError(row)
            found[row] = name
    return [found[row] for row in map(tuple, rows.tolist())]


def units(rows: Ints) -> list[tuple[int, ...]]:
    """Return the aligned form of true rows: equal for twins."""
    true = rows[rows[:, 3] == 1, :3]
    families = Families.of(repeats_of(true, ENTITIES, len(NAMES)), len(NAMES))
    return [tuple(row) for row in families.aligned(true).tolist()]


def read(path: Path, split: str, **shares: float) -> Prepared:
    """Prepare a file with a split."""
    return prepare(find_dataset(str(path)), path.parent, draw=SplitDraw(rule=SplitRule.of(split), **shares))  # type: ignore[arg-type]


def lines_of(rows: list[str]) -> str:
    return "".join(f"{row}\n" for row in rows)
