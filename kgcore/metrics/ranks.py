"""Metrics of filtered ranks: mean rank, mean reciprocal rank and Hits@N."""

import numpy as np

from kgcore.arrays import Floats

HITS = (1, 3, 10)


def rank_metrics(ranks: Floats) -> dict[str, float]:
    """Return the mean rank, the mean reciprocal rank and Hits@N of ranks >= 1.

    ranks  array of any shape, such as one column for each replaced side; all ranks count together

    mr = mean(rank); mrr = mean(1 / rank), in (0, 1]; hits_at_N = share of ranks <= N. Paper, section 5.
    """
    flat = np.asarray(ranks, dtype=np.float64).ravel()
    metrics = {"mr": float(flat.mean()), "mrr": float((1 / flat).mean())}
    return metrics | {f"hits_at_{n}": float((flat <= n).mean()) for n in HITS}
