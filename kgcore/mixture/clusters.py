"""The design effect: how much dependence between the rows of a sample enlarges a variance."""

import numpy as np

from kgcore.arrays import Floats, Ints


def design_effect(cells: Ints, groups: Ints | None, num_cells: int) -> float:
    """Return by which factor dependence enlarges the variance of the shares of ordered cells.

    cells   (n,) the cell of each row, 0 to num_cells - 1
    groups  (n,) rows of one group are dependent, rows of different groups are not; None: all rows are independent

    Give each cell b a number h_b, such as the indicator of one cell. Dependence multiplies the variance of the mean of
    h over the rows by

        deff(h) = sum_g (sum_{i in g} (h_i - mean h))^2 / sum_i (h_i - mean h)^2.

    The result is the larger of two values. The first is the mean of deff over the cells' indicators, each weighted by
    its variance (the first-order correction of Rao & Scott, Annals of Statistics 12, 1984). The second is deff of the
    rank, because the scores of a group mostly move up or down together. The result is at least 1, and it is 1 if all
    rows are in one cell. Counts divided by it can be used as if the rows were independent.
    """
    if groups is None or not len(cells):
        return 1.0
    _, group = np.unique(groups, return_inverse=True)
    size, num = len(cells), int(group.max()) + 1
    counts = np.zeros((num, num_cells))
    np.add.at(counts, (group, cells), 1.0)
    sizes, shares = counts.sum(axis=1), counts.sum(axis=0) / size
    spread = float((shares * (1 - shares)).sum())
    if spread == 0:
        return 1.0
    indicators = float(((counts - sizes[:, None] * shares) ** 2).sum()) / (size * spread)
    rank = np.cumsum(shares) - shares / 2
    rank -= shares @ rank
    return max(1.0, indicators, float(((counts @ rank) ** 2).sum() / (size * (shares @ rank**2))))


def effective_counts(cells: Ints, groups: Ints | None, num_cells: int) -> Floats:
    """Return the counts (num_cells,) of rows in each cell, divided by the design effect."""
    counts = np.bincount(cells, minlength=num_cells).astype(np.float64)
    return counts / design_effect(cells, groups, num_cells)
