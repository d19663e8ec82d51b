"""The filtered rank of each true triple among its corruptions."""

from collections.abc import Callable

import numpy as np
import torch

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import TripleIndex
from kgcore.embed.models.trained import TrainedModel

TILE_QUERIES = 256  # triples of a block
BLOCKS_AT_ONCE = 4  # blocks of triples that use a tile of entities while it is in the cache


def spread(facts: int, most: int) -> Ints:
    """Return positions (m,) spread evenly over a number of facts, m = min(facts, most); all of them if `most` is 0."""
    return np.arange(facts) if most in (0, facts) or facts < most else np.arange(most) * facts // most


@torch.inference_mode()
def filtered_ranks(
    trained: TrainedModel,
    triples: Triples,
    known: TripleIndex,
    on_block: Callable[[int], None] = lambda done: None,
) -> Floats:
    """Return the filtered ranks (n, 2) of triples (n, 3). Column 0 replaces the subject, column 1 the object.

    rank = 1 + #{higher scores} + #{equal scores} / 2, counted over the corruptions that are not known facts. A tie
    counts half, so that a model with constant scores has the mean rank of a random order. Bordes et al., NIPS 2013
    ("filtered"); paper, section 5.

    known     facts that do not count as corruptions
    on_block  function that is called after each block with the number of triples ranked so far

    A block has TILE_QUERIES triples, or 16 for a model that needs more than a number a pair. Memory on a CPU for a
    comparison with tiles: a few tiles of scores. Otherwise the scores of a block against all entities, and at most
    LARGEST_BLOCK numbers to compute them, because entities are scored in parts.
    """
    rows = TILE_QUERIES if trained.model.pair_width == 1 else 16
    ranks = np.empty((len(triples), 2))
    step, ranks_of_block = (rows * BLOCKS_AT_ONCE, _tile_ranks) if trained.tiling else (rows, _matrix_ranks)
    start = 0
    while start < len(triples):
        full = (len(triples) - start) // rows * rows
        block = triples[start : start + min(step, full or rows)]  # a last block of fewer rows comes alone
        ranks[start : start + len(block)] = ranks_of_block(trained, block, known, rows)
        start += len(block)
        on_block(start)
    return ranks


def _tile_ranks(trained: TrainedModel, triples: Triples, known: TripleIndex, rows: int) -> Floats:
    """Return the ranks (n, 2) of triples, `rows` triples at a time in each tile of entities."""
    from kgcore.wings.fast_cpu.scores import Side, TiledQueries, count_tiles

    tables, tiling, sides = trained.embeddings, trained.tiling, []
    assert tiling is not None
    for start in range(0, len(triples), rows):
        block = triples[start : start + rows]
        s, p, o = tables.rows_of(torch.from_numpy(np.ascontiguousarray(block)))
        facts = known.subjects(block[:, 1], block[:, 2]), known.objects(block[:, 0], block[:, 1])
        queries = trained.queries(o, p, as_objects=False), trained.queries(s, p, as_objects=True)
        for points, column, fact in zip(queries, (0, 2), facts, strict=True):
            targets = np.ascontiguousarray(block[:, column])
            sides.append(Side(TiledQueries(points, tiling), targets, fact, tables.entities))
    count_tiles(sides, tables.entities)
    ranks = [np.concatenate([side.ranks() for side in sides[column::2]]) for column in (0, 1)]
    return np.stack(ranks, axis=1)


def _matrix_ranks(trained: TrainedModel, triples: Triples, known: TripleIndex, rows: int) -> Floats:
    """Return the ranks (n, 2) of at most `rows` triples, from all scores of all their corruptions."""
    as_subjects, as_objects = trained.alternatives(triples, rows)
    sides = (
        (as_subjects, triples[:, 0], known.subjects(triples[:, 1], triples[:, 2])),
        (as_objects, triples[:, 2], known.objects(triples[:, 0], triples[:, 1])),
    )
    return np.stack([ranks_of(scores, targets, facts).cpu().numpy() for scores, targets, facts in sides], axis=1)


@torch.inference_mode()
def ranks_of(scores: torch.Tensor, entities: Ints, facts: tuple[Ints, Ints]) -> torch.Tensor:
    """Return the rank (n,) of the entity (n,) of each row in its row of `scores` (n, E).

    Overwrites the scores of known facts and of the entities by -infinity: what is left are the alternatives.

    facts  the row and the entity of each known fact: these entries do not count
    """
    targets = torch.from_numpy(np.ascontiguousarray(entities)).to(scores.device)
    own = scores.gather(1, targets[:, None])
    row, entity = (torch.from_numpy(part).to(scores.device) for part in facts)
    scores[row, entity] = -torch.inf
    better = (scores > own).sum(1)
    scores.scatter_(1, targets[:, None], -torch.inf)
    equal = (scores == own).sum(1)
    return 1 + better + equal / 2
