"""Scores many pairs of subjects and objects of an embedding model at once, as matrix products where it has them.

A score of a product can differ in its last bits from that of the triple alone, which `TrainedModel.score` gives.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from kgcore.arrays import Floats, Ints, Triples
from kgcore.models.base import LARGEST_BLOCK, Embeddings, Model
from kgcore.models.blocks import MULTIPLE, block_rows, fixed_blocks
from kgcore.models.scorer import Bounds

if TYPE_CHECKING:
    from kgcore.models.trained import TrainedModel

SUBJECTS_AT_ONCE, OBJECTS_AT_ONCE = 256, 4096  # of a tile of scores
BLOCK_SCORES = 2**23  # scores of a block of queries
MARGIN = 1e-4  # relative: a score of a tile is at most so far from that of the triple alone
MOST_QUERIES = 1024  # queries of a block


def tiles(trained: "TrainedModel", subjects: Ints, predicate: int, objects: Ints) -> Iterator[Bounds]:
    """Bound the scores of all pairs, as `Scorer.tiles` does. Memory: a tile of scores."""
    model, tables = trained.model, trained.embeddings
    levels, device, width = _levels(trained, predicate, subjects), tables.entities.device, model.pair_width
    wide = max(1, min(OBJECTS_AT_ONCE, LARGEST_BLOCK // width))
    high = max(1, min(SUBJECTS_AT_ONCE, LARGEST_BLOCK // (width * wide)))
    others, ids = torch.from_numpy(objects).to(device), torch.from_numpy(subjects).to(device)
    for top in range(0, len(ids), high):
        s = tables.entities.index_select(0, ids[top : top + high])
        p = tables.predicates[predicate].expand(len(s), -1)
        rows = slice(top, top + len(s))
        for left in range(0, len(others), wide):
            candidates = tables.entities.index_select(0, others[left : left + wide])
            with torch.inference_mode():
                scores = model.score_objects(s, p, candidates).double().cpu().numpy()
            margin = MARGIN * np.maximum(1.0, np.abs(scores))
            bounds = (scores - margin) - levels[rows, None], (scores + margin) - levels[rows, None]
            yield rows, slice(left, left + len(candidates)), *bounds


@torch.inference_mode()
def answers(
    trained: "TrainedModel", predicate: int, entities: Ints, candidates: Ints, as_objects: bool
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Score queries with all candidates for their answers, as `Scorer.answers` does, float32.

    Memory: at most BLOCK_SCORES scores, or MULTIPLE rows of them, and LARGEST_BLOCK numbers to compute them.
    """
    model, tables = trained.model, trained.embeddings
    device = tables.entities.device
    wanted = -(-len(entities) // MULTIPLE) * MULTIPLE
    rows = block_rows(min(MOST_QUERIES, wanted), BLOCK_SCORES // max(len(candidates), 1))
    possible = tables.entities.index_select(0, torch.from_numpy(candidates).to(device))
    parts = torch.split(possible, max(MULTIPLE, LARGEST_BLOCK // (rows * model.pair_width)))
    p = tables.predicates[predicate].expand(rows, -1)
    levels = None
    if trained.cohort is not None:  # those of the subjects that ask, or of the candidates that are subjects
        made = _levels(trained, predicate, entities if as_objects else candidates)
        levels = torch.from_numpy(made).float().to(device)
    start = 0
    for block, own in fixed_blocks(torch.from_numpy(entities).to(device), rows):
        e = tables.entities.index_select(0, block)
        if as_objects:
            scores = torch.cat([model.score_objects(e, p, part) for part in parts], 1)[:own]
        else:
            scores = torch.cat([model.score_subjects(p, e, part) for part in parts], 1)[:own]
        taken = slice(start, start + own)
        if levels is not None:
            scores = scores - (levels[taken, None] if as_objects else levels)
        yield taken, scores
        start += own


@torch.inference_mode()
def candidate_scores(
    model: Model, tables: Embeddings, triples: Triples, rows: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return f for every entity as the subject, and for every entity as the object: (n, 3) -> (n, E) and (n, E).

    rows  at least n; it sets how many entities are scored at a time: see `filtered_ranks`
    """
    ids = torch.from_numpy(np.ascontiguousarray(triples)).to(tables.entities.device)
    s, p, o = tables.rows_of(ids)
    parts = torch.split(tables.entities, max(1, LARGEST_BLOCK // (rows * model.pair_width)))
    as_subjects = torch.cat([model.score_subjects(p, o, candidates) for candidates in parts], 1)
    return as_subjects, torch.cat([model.score_objects(s, p, candidates) for candidates in parts], 1)


def _levels(trained: "TrainedModel", predicate: int, subjects: Ints) -> Floats:
    """Return what the cohort subtracts from each subject's scores (n,): 0 without a cohort."""
    if trained.cohort is None:
        return np.zeros(len(subjects))
    return trained.cohort.weight * trained.levels(np.stack([subjects, np.full_like(subjects, predicate), subjects], 1))
