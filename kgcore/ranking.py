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
    """Ranks (n, 2) of each triple (n, 3) among itself and all its corruptions that are not known: the subject side in
    column 0, the object side in column 1.

    rank = 1 + #{better} + #{equal} / 2: a tie counts half, so a constant model has the mean rank of guessing.
    Bordes et al., NIPS 2013 ("filtered"); paper, section 5.

    known     facts that are no competitors; the triple itself competes whether it stands there or not
    rows      triples a block, 256 by default or, for a model without queries, 16: memory is rows x E floats, and
              LARGEST_BLOCK of them for what a pair takes beside its score: entities are scored in turns
    on_block  called with the number of triples done
    """
    model, tables = trained.model, trained.embeddings
    device = tables.entities.device
    if rows is None:
        rows = 256 if model.by_queries else 16
    turns = torch.split(tables.entities, max(1, LARGEST_BLOCK // (rows * model.pair_width)))
    ranks = np.empty((len(triples), 2))
    for start in range(0, len(triples), rows):
        block = triples[start : start + rows]
        ids = torch.from_numpy(np.ascontiguousarray(block)).to(device)
        s, p, o = tables.entities[ids[:, 0]], tables.predicates[ids[:, 1]], tables.entities[ids[:, 2]]
        as_subjects = torch.cat([model.score_subjects(p, o, candidates) for candidates in turns], 1)
        as_objects = torch.cat([model.score_objects(s, p, candidates) for candidates in turns], 1)
        sides = (
            (as_subjects, ids[:, 0], known.subjects(block[:, 1], block[:, 2])),
            (as_objects, ids[:, 2], known.objects(block[:, 0], block[:, 1])),
        )
        for column, (scores, targets, facts) in enumerate(sides):
            ranks[start : start + len(block), column] = _ranks(scores, targets, facts).cpu().numpy()
        on_block(start + len(block))
    return ranks


def _ranks(scores: torch.Tensor, targets: torch.Tensor, facts: tuple[Ints, Ints]) -> torch.Tensor:
    """Mean-tie ranks of the targets in the rows of `scores` (n, E), known facts left out."""
    own = scores.gather(1, targets[:, None])
    row, entity = (torch.from_numpy(part).to(scores.device) for part in facts)
    scores[row, entity] = -torch.inf
    better = (scores > own).sum(1)
    scores.scatter_(1, targets[:, None], -torch.inf)
    equal = (scores == own).sum(1)
    return 1 + better + equal / 2
