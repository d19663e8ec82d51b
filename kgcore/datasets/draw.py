"""Draw validation and test splits from a graph that comes without splits."""

from dataclasses import dataclass

import numpy as np

from kgcore.arrays import Bools, Ints
from kgcore.errors import InputError


@dataclass(frozen=True)
class Draw:
    """How to draw the splits.

    valid_share, test_share  shares of the true triples that go to valid and to test, above 0; their sum is below 1
    seed                     seed of the draw
    """

    valid_share: float = 0.1
    test_share: float = 0.1
    seed: int = 0


def draw_splits(rows: Ints, draw: Draw) -> dict[str, Ints]:
    """Return the rows of train, valid and test.

    rows  (n, 4) distinct rows in sorted order: subject, predicate, object, label (1 / 0). The order of a file's lines
          has no effect then

    Every entity and every predicate of a true triple keeps at least one true triple in train: the first one of a random
    order. Valid and test are drawn uniformly from the other true triples. If these are too few, valid and test share
    them in the wanted proportion. Negatives go to valid and test in the same proportion, never to train.

    Raises InputError if a true triple cannot be found for each of valid and test.
    """
    rng = np.random.default_rng(draw.seed)
    true, false = rows[rows[:, 3] == 1], rows[rows[:, 3] == 0]
    order = rng.permutation(len(true))
    free = order[~_first_of_a_name(true[order])]
    shares = draw.valid_share, draw.test_share
    valid, test = (max(1, round(share * len(true))) for share in shares)
    if valid + test > len(free):
        valid = max(1, round(len(free) * shares[0] / sum(shares)))
        test = len(free) - valid
    if test < 1:
        raise InputError(
            f"only {len(free):,} of the {len(true):,} true triples can leave train, because every entity and predicate "
            "must keep a triple there: valid and test need at least 2. Add triples, or give train, valid and test as "
            "files"
        )
    mixed = rng.permutation(len(false))
    cut = round(len(false) * shares[0] / sum(shares))
    held = {
        "valid": np.concatenate([true[free[:valid]], false[mixed[:cut]]]),
        "test": np.concatenate([true[free[valid : valid + test]], false[mixed[cut:]]]),
    }
    kept = np.ones(len(true), dtype=bool)
    kept[free[: valid + test]] = False
    return {"train": true[kept], **held}


def _first_of_a_name(rows: Ints) -> Bools:
    """Return a mask (n,) of the rows in which an entity or a predicate occurs for the first time."""
    first = np.zeros(len(rows), dtype=bool)
    ends = rows[:, [0, 2]].reshape(-1)
    first[np.unique(ends, return_index=True)[1] // 2] = True
    first[np.unique(rows[:, 1], return_index=True)[1]] = True
    return first
