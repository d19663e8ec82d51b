"""The search for the highest scores among more corruptions than fit in memory.

At a low base rate alpha, only about one corruption in 1 / alpha has a score at which a triple is likely true. ENOUGH /
alpha corruptions are then needed, or all of them: see `CorruptConfig.looks_at`. The search looks at them block by
block. It keeps the corruptions with the highest scores, all of them, with exact weights. The drawn corruptions of the
score table stand for all others.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kgcore.arrays import Bools, Floats, Scores, Triples, Weights
from kgcore.embed.corruptions.held_out import Further, Looked, Top
from kgcore.scores.table import CORRUPTION, SEARCHED, ScoreTable

if TYPE_CHECKING:
    from kgcore.embed.models.trained import TrainedModel

MOST = 1_000_000  # corruptions with the highest scores that are kept


def searched_table(
    table: ScoreTable,
    further: Further,
    trained: "TrainedModel",
    on_block: Callable[[int], None] = lambda rows: None,
) -> ScoreTable:
    """Return the score table with the highest scores among the corruptions of valid, as rows of the origin `searched`.

    table     its corruptions of valid are `further.eta` draws for each positive, without weights
    further   where the corruptions come from: all of them, or draws in addition to those of the table
    on_block  called after each block with the number of corruptions so far

    A corruption is kept if its score is above the limit t_r of its relation r (`Top`). If all corruptions are looked
    at, it weighs what `every_corruption` says: (m / n') p_ij / sum_j p_ij, for m corruptions of n' positives. If they
    are drawn, it weighs 1. So the part of the score range above the limits is that of all corruptions. Below t_r, the
    n_r draws of the table with such scores are a random sample of what was left out. Each of them gets the weight

        (N_r - T_r) / n_r

    where N_r is the weight of all corruptions of the relation, and T_r that of its kept ones. So each relation has its
    exact weight, above and below its limit, and all weights sum to the number of corruptions that were looked at.
    Draws above t_r get the weight 0: the kept rows replace them. The concentration of the others is S_r n_r / (N_r -
    T_r)^2, where S_r is the sum of the squared weights that were left out. So the calibrators that count rows count
    those of all corruptions.

    Memory: the table, 3 MOST rows, and a block.
    """
    drawn = table.rows("valid", CORRUPTION)
    triples, scores = table.triples[drawn], table.scores[drawn]
    top = Top(MOST, np.bincount(further.positives[:, 1], minlength=len(further.shares)))
    if every := further.every:
        blocks: Iterable[Looked] = further.all()
    else:
        top.add(triples, scores, np.ones(len(scores)))
        blocks = further.draws()
    used = np.zeros(len(further.shares))
    for block in blocks:
        top.add(block.triples, trained.score(block.triples), block.weights)
        used += block.positives
        on_block(top.rows)
    found, found_scores, weights = top.kept()
    if not len(found):  # all scores are equal
        return table
    relations = found[:, 1]
    kept = np.bincount(relations, weights, len(used)).astype(np.float64)
    below = scores <= top.limits[triples[:, 1]]
    sizes = np.bincount(triples[below, 1], minlength=len(used))
    total = used if every else top.seen  # the weights of a positive sum to 1, up to rounding
    left = np.where(np.isfinite(top.limits), np.maximum(total - kept, 0.0), 0.0)
    own: Weights = np.where(below, (left / np.maximum(sizes, 1))[triples[:, 1]], 0.0)
    squares = np.maximum(top.squares - np.bincount(relations, weights**2, len(used)), 0.0)
    shares = np.where(left > 0, squares * sizes / np.where(left > 0, left, 1.0) ** 2, 1.0).clip(min=1e-12)
    weights = weights * _missing(total, kept, (left > 0) & (sizes == 0))[relations]
    unit = top.rows / total.sum()
    again = replace(table, weights=_of_draws(table, own * unit), concentrations=_of_draws(table, shares[triples[:, 1]]))
    return _appended(again, found, found_scores, weights * unit, trained)


def _missing(total: Floats, kept: Floats, empty: Bools) -> Floats:
    """Return the factors (R,) of relations whose lower scores no draw represents: the kept rows stand for them, too."""
    return np.where(empty & (kept > 0), total / np.where(kept > 0, kept, 1.0), 1.0)


def _of_draws(table: ScoreTable, values: Floats) -> Floats:
    """Return `values` for the draws of valid, and 1 for all other rows: (n,)."""
    every = np.ones(len(table))
    every[table.rows("valid", CORRUPTION)] = values
    return every


def _appended(
    table: ScoreTable, triples: Triples, scores: Scores, weights: Weights, trained: "TrainedModel"
) -> ScoreTable:
    """Return the table, which has weights, with searched rows: triples (m, 3), scores (m,), weights (m,)."""
    assert table.weights is not None
    assert table.concentrations is not None
    size = len(scores)
    return replace(
        table,
        triples=np.concatenate([table.triples, triples]),
        labels=np.r_[table.labels, np.zeros(size)],
        scores=np.r_[table.scores, scores],
        split=np.r_[table.split, np.repeat("valid", size)],
        origin=np.r_[table.origin, np.repeat(SEARCHED, size)],
        raw=None if table.raw is None else np.r_[table.raw, trained.raw_score(triples)],
        confidences=None if table.confidences is None else np.r_[table.confidences, np.zeros(size)],
        weights=np.r_[table.weights, weights],
        concentrations=np.r_[table.concentrations, np.ones(size)],
        hits=None if table.hits is None else np.concatenate([table.hits, np.zeros((size, 2))]),
    )
