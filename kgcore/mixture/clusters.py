"""How many independent rows a sample of dependent rows is worth."""

import numpy as np

from kgcore.arrays import Floats, Ints


def design_effect(cells: Ints, groups: Ints | None, num_cells: int) -> float:
    """Return by which factor the variance of the shares of the cells is larger than with independent rows.

    cells   (n,) the cell of each row, 0 to num_cells - 1
    groups  (n,) rows of one group are dependent, rows of different groups are not; None: all rows are independent

    With group sizes n_g, counts n_gb and shares p_b = sum_g n_gb / n, the effect is

        deff = sum_b sum_g (n_gb - n_g p_b)^2 / (n sum_b p_b (1 - p_b)),

    the mean of the design effects of the cells, each weighted by its binomial variance. Counts divided by it can be
    used as if the rows were independent: the first-order correction of Rao & Scott (Annals of Statistics 12, 1984).
    The factor is at least 1, and 1 if all rows are in one cell.
    """
    n = len(cells)
    if groups is None or n == 0:
        return 1.0
    _, group = np.unique(groups, return_inverse=True)
    sizes = np.bincount(group).astype(np.float64)
    shares = np.bincount(cells, minlength=num_cells) / n
    spread = float((shares * (1 - shares)).sum())
    if spread == 0:
        return 1.0
    pairs, counts = np.unique(group * num_cells + cells, return_counts=True)
    # sum_gb (n_gb - n_g p_b)^2, without the cells where n_gb = 0: these contribute (n_g p_b)^2
    own_size, own_share = sizes[pairs // num_cells], shares[pairs % num_cells]
    squares = float((counts.astype(np.float64) ** 2 - 2 * counts * own_size * own_share).sum())
    squares += float((sizes**2).sum() * (shares**2).sum())
    return max(1.0, squares / (n * spread))


def effective_counts(cells: Ints, groups: Ints | None, num_cells: int) -> Floats:
    """Return the counts (num_cells,) of rows in each cell, divided by the design effect."""
    counts = np.bincount(cells, minlength=num_cells).astype(np.float64)
    return counts / design_effect(cells, groups, num_cells)
