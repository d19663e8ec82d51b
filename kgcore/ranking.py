"""Filtered ranks of true triples among all their corruptions."""

from collections.abc import Callable

import numpy as np
import torch

from kgcore.arrays import Floats, Ints, Triples
from kgcore.graph import TripleIndex
from kgcore.models.base import LARGEST_BLOCK
from kgcore.models.trained import TrainedModel


@torch.inference_mode()
def filtered_ranks(
    trained: TrainedModel,
    triples: Triples,
    known: TripleIndex,
    rows: int | None = None,
    on_block: Callable[[int], None] = lambda done: None,
) -> Floats:
    """Filtered ranks (n, 2) of triples (n, 3): among corrupted subjects in column 0, corrupted objects in column 1.

    rank = 1 + #{better} + #{equal} / 2 over the corruptions that are not known facts. A tie counts half, so that a
    constant model has the mean rank of a random order. Bordes et al., NIPS 2013 ("filtered"); paper, section 5.

    known     facts that are left out of the corruptions
    rows      triples per block; None = 256, or 16 for a model without queries. Memory: rows x E scores, and at most
              LARGEST_BLOCK numbers for computing them, since entities are scored in parts
    on_block  called after each block with the number of triples done
    """
    model, tables = trained.model, trained.embeddings
    device = tables.entities.device
    if rows is None:
        rows = 256 if model.by_queries else 16
    parts = torch.split(tables.entities, max(1, LARGEST_BLOCK // (rows * model.pair_width)))
    ranks = np.empty((len(triples), 2))
    for start in range(0, len(triples), rows):
        block = triples[start : start + rows]
        ids = torch.from_numpy(np.ascontiguousarray(block)).to(device)
        s, p, o = tables.entities[ids[:, 0]], tables.predicates[ids[:, 1]], tables.entities[ids[:, 2]]
        as_subjects = torch.cat([model.score_subjects(p, o, candidates) for candidates in parts], 1)
        as_objects = torch.cat([model.score_objects(s, p, candidates) for candidates in parts], 1)
        sides = (
            (as_subjects, ids[:, 0], known.subjects(block[:, 1], block[:, 2])),
            (as_objects, ids[:, 2], known.objects(block[:, 0], block[:, 1])),
        )
        for column, (scores, targets, facts) in enumerate(sides):
            ranks[start : start + len(block), column] = _ranks(scores, targets, facts).cpu().numpy()
        on_block(start + len(block))
    return ranks


def _ranks(scores: torch.Tensor, targets: torch.Tensor, facts: tuple[Ints, Ints]) -> torch.Tensor:
    """Ranks (n,) of the targets (n,) in the rows of `scores` (n, E), without the known facts. Overwrites `scores`."""
    own = scores.gather(1, targets[:, None])
    row, entity = (torch.from_numpy(part).to(scores.device) for part in facts)
    scores[row, entity] = -torch.inf
    better = (scores > own).sum(1)
    scores.scatter_(1, targets[:, None], -torch.inf)
    equal = (scores == own).sum(1)
    return 1 + better + equal / 2
