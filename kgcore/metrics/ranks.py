"""Metrics of filtered ranks: mean rank, mean reciprocal rank and Hits@N."""

import math

import numpy as np

from kgcore.arrays import Floats, Weights

HITS = (1, 3, 10)


def rank_gain(ranks: Floats, sizes: Floats) -> float:
    """Return 1 - sum(log r) / sum(E log r of a random order) of ranks r >= 1 among `sizes` candidates each.

    It is 1 if all ranks are 1, and 0 for a random order, for which E log r = log(n!) / n with n candidates. A row of
    rank r takes about log r to name, so this is the share of these lengths that the order saves. 0 if every size is 1.
    """
    expected = sum(math.lgamma(n + 1) / n for n in np.ravel(sizes).tolist())
    return 1 - float(np.log(ranks).sum()) / expected if expected else 0.0


def rank_metrics(ranks: Floats, weights: Weights | None = None) -> dict[str, float]:
    """Return the mean rank, the mean reciprocal rank and Hits@N of ranks >= 1.

    ranks    (n, ...) such as one column for each replaced side; all ranks count together
    weights  (n,) non-negative: how much each triple counts. With confidences as weights, the metrics are the means over
             the triples that are expected to be true. None, or all 0: all triples count the same

    mr = mean(rank); mrr = mean(1 / rank), in (0, 1]; hits_at_N = share of ranks <= N. Paper, section 5.
    """
    r = np.asarray(ranks, dtype=np.float64).reshape(len(ranks), -1)
    w = None if weights is None or not np.any(weights) else np.repeat(weights, r.shape[1])
    values = {"mr": r, "mrr": 1 / r} | {f"hits_at_{n}": r <= n for n in HITS}
    return {name: float(np.average(value.ravel(), weights=w)) for name, value in values.items()}
